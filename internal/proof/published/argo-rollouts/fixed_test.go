//go:build fixed

package argorollouts_test

// fixed says that the tests were built with fixed.mod.
const fixed = true
