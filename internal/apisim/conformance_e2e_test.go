//go:build e2e

package apisim_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/client-go/discovery"

	"github.com/homeostat/homeostat/internal/test/conformance"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

var update = flag.Bool("update", false, "record the answers of the real server")

const definitions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.sim.example.com}
spec:
  group: sim.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.sim.example.com}
spec:
  group: sim.example.com
  scope: Cluster
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// recorded is the version of the server whose answers are in testdata.
const recorded = "v1.36."

// asRecorded skips a test of the recorded answers against another version, if
// KUBERNETES asks for one: docs/compatibility.md lists what differs.
func asRecorded(t *testing.T, cluster *e2e.Cluster) {
	t.Helper()
	if os.Getenv("KUBERNETES") == "" || *update {
		return
	}
	client, err := discovery.NewDiscoveryClientForConfig(cluster.Config())
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	version, err := client.ServerVersion()
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	if !strings.HasPrefix(version.GitVersion, recorded) {
		t.Skipf("the answers of %sx are recorded, and this is %s", recorded, version.GitVersion)
	}
}

func TestE2EConformance(t *testing.T) {
	g := gomega.NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cluster, err := e2e.Start(ctx, &e2e.Options{
		// No other client may write, because the answers would depend on its
		// timing.
		Flags: []string{"kube-controller-manager:--controllers=-deployment-controller,-job-controller,-daemonset-controller," +
			"-disruption-controller,-namespace-controller,-garbage-collector-controller"},
	})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { _ = cluster.Stop() })
	asRecorded(t, cluster)
	g.Expect(cluster.Apply(ctx, definitions)).To(gomega.Succeed())
	for _, file := range scenarios(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			got := conformance.Play(t, cluster.Config(), file)
			if *update {
				gomega.NewWithT(t).Expect(os.WriteFile(conformance.Golden(file), []byte(got), 0o600)).To(gomega.Succeed())
			}
			compare(t, file, got)
		})
	}
}
