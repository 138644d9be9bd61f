// Package wiretap lets the tests of the examples sit between a client and its
// API server. A tap counts requests, answers in place of the server, and
// injects faults after a write was committed.
package wiretap
