// Package conformance plays requests against an API server, real or simulated,
// and prints the relevant parts of the answers. It masks values that differ
// between any two servers. The answers of a real server are recorded in .golden
// files.
package conformance
