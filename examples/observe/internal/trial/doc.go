// Package trial tests observe as a process against a real API server. It tests
// each behaviour that README.md promises, each script that is shipped, and the
// manifest.
package trial
