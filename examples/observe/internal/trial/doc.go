// Package trial has the tests of observe as a process on a real API server: each
// behaviour that README.md promises, each script that ships, and the manifest.
package trial
