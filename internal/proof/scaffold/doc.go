// Package scaffold contains the tests of operator/new that need a cluster or a
// module proxy. They do what a new user does, from an empty folder to an
// operator that survives faults.
package scaffold
