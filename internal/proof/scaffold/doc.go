// Package scaffold has the tests of operator/new that need a cluster or a module
// proxy: a stranger's way from an empty folder to an operator that survives.
package scaffold
