package apisim

import (
	"testing"

	. "github.com/onsi/gomega"
)

// A package that is new in the library is not mistaken for a program.
func TestALineOfTheTraceNamesTheProgram(t *testing.T) {
	g := NewWithT(t)
	for function, isBetween := range map[string]bool{
		"k8s.io/client-go/rest.(*Request).Do":                                true,
		"sigs.k8s.io/controller-runtime/pkg/client.(*client).Create":         true,
		"net/http.(*Client).do":                                              true,
		module + "patch.(*Applier[...]).Apply":                               true,
		module + "internal/reconnect.(*transport).RoundTrip":                 true,
		module + "controllerruntime.Lead":                                    true,
		module + "reconcile/reconciletest/internal/anything.(*x).do.func1":   true,
		module + "patch_test.TestApply.func1":                                false,
		module + "reconcile/reconciletest_test.(*operator).Reconcile":        false,
		module + "examples/website/internal/website.(*Controller).Reconcile": false,
		module + "internal/proof/zoo.(*controller).Reconcile":                false,
		"example.com/widget-operator.(*controller).Reconcile":                false,
		"main.main": false,
	} {
		g.Expect(isMachinery(function)).To(Equal(isBetween), function)
	}
}
