//go:build fixed

package certmanager_test

import (
	"testing"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/proof/published/results"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Suspected, in this version: the condition Ready of a Certificate still says
// that its Secret does not exist after another client has created it without a
// label of cert-manager. #9037 is about such Secrets, and stops only the log.
func TestSecretThatAnotherClientCreates(t *testing.T) {
	o := options()
	r := results.Search(t, controller.NewContextFactory, served(&reconciletest.Case{
		Run: running(readiness),
		Objects: []runtime.Object{object(`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {namespace: d, name: web}
spec: {secretName: web-tls, dnsNames: [web.example.com], issuerRef: {name: one}}`)},
		Workload: []reconciletest.Step{reconciletest.Create(secret("web-tls", nil))},
	}), &o)
	if r.Oracle != "tail" {
		t.Errorf("found by %q, want \"tail\": %s", r.Oracle, r.Failure)
	}
}
