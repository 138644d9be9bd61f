package crd_test

import (
	"fmt"

	"github.com/homeostat/homeostat/reconcile/reconciletest/crd"
)

// What a file of definitions says goes into reconciletest.Case.Definitions.
func ExampleParse() {
	resources, err := crd.Parse([]byte(definition))
	for _, r := range resources {
		fmt.Println(r.GVR().String(), r.Kind, r.Namespaced, r.Status, r.ShortNames)
	}
	fmt.Println(err)
	// Output:
	// web.example.com/v1, Resource=sites Site true true [st]
	// <nil>
}
