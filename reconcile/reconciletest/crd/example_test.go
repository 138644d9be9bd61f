package crd_test

import (
	"fmt"
	"os"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/crd"
)

// The definitions for a test's server, from a folder of manifests such as
// config/crd/bases.
func ExampleRead() {
	definitions, err := crd.Read(os.DirFS("testdata"))
	if err != nil {
		fmt.Println(err)
		return
	}
	test := reconciletest.Case{Definitions: definitions}
	fmt.Println(len(definitions), test.Definitions != nil, err)
	// Output: 5 true <nil>
}

// The definitions in a file are the value of reconciletest.Case.Definitions.
func ExampleParse() {
	definitions, err := crd.Parse([]byte(definition))
	if err != nil {
		fmt.Println(err)
		return
	}
	test := reconciletest.Case{Definitions: definitions}
	fmt.Println(len(definitions), test.Definitions != nil)
	// Output: 1 true
}
