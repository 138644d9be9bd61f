// Package cli is observe's command line: flags, what they mean, and how the
// process begins and ends.
//
//		flags ──▶ settings ──▶ RESOURCE by discovery ──▶ first LIST allowed? ──▶ Observer until the end ──▶ exit code
//		                                                                          └──▶ /livez /readyz /metrics
//
//	  - Wrong flags and settings are one line on standard error, and exit
//	    code 1, before anything runs.
//	  - Standard output belongs to the commands and, unless --quiet, to a line for
//	    each; logs go to standard error.
//	  - SIGTERM, SIGINT and --exit-after drain and exit 0; a second signal ends the
//	    process, and with it the commands, at once.
package cli
