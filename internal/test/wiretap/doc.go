// Package wiretap lets tests of the examples sit between a client and its API server:
// count requests, answer in the server's place, and strike after a write was committed.
package wiretap
