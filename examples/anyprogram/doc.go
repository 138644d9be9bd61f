// Package anyprogram tests programs that were not written with Homeostat: an
// operator that uses controller-runtime (package operator), an operator with a
// custom kind that follows the tutorial of operator-sdk (package memcached),
// and a controller that uses only client-go (package plain). All of them take a
// rest.Config as a parameter. docs/testing-your-operator.md shows how to test
// such programs.
//
// It is a separate module, because Homeostat does not depend on
// controller-runtime.
package anyprogram
