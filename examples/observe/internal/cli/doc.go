// Package cli is observe's command line. It parses the flags, starts the
// observer, and determines the exit code of the process:
//
//	os.Exit(cli.Main(os.Args, os.Stdout, os.Stderr))
//
//	flags ──▶ settings ──▶ RESOURCE by discovery ──▶ first LIST allowed? ──▶ Observer until the end ──▶ exit code
//	                                                                          └──▶ /livez /readyz /metrics
//
// The contract:
//
//   - Wrong flags and settings are reported in one line on standard error,
//     with exit code 1, before any command runs.
//   - Standard output is for the commands and, unless --quiet is set, for a
//     line per command. Logs are written to standard error.
//   - After SIGTERM, SIGINT or the time of --exit-after, the process lets
//     running commands finish, and exits with 0. A second signal ends the
//     process and its commands at once.
package cli
