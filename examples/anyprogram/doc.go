// Package anyprogram tests programs that were not written with Homeostat: an operator on controller-runtime (package
// operator), one after operator-sdk's tutorial, with a kind of its own (package memcached), and a controller on
// client-go alone (package plain). All take the rest.Config that they are handed.
// docs/testing-your-operator.md shows how.
//
// It is a module of its own: Homeostat does not depend on controller-runtime.
package anyprogram
