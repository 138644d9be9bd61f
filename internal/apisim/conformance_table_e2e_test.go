//go:build e2e

package apisim_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/test/conformance"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

// The scripts of package crd, and their definitions. They are recorded here,
// where there is a real server.
const (
	schemaTables      = "../../reconcile/reconciletest/crd/testdata/*.txt"
	schemaDefinitions = "../../reconcile/reconciletest/crd/testdata/*.yaml"
)

// writers are the controllers of the real server that would write beside the
// scripts.
var writers = []string{
	"cronjob", "daemonset", "deployment", "disruption", "endpoints", "endpointslice", "endpointslice-mirroring",
	"garbage-collector", "horizontal-pod-autoscaler", "job", "namespace", "persistentvolume-binder",
	"persistentvolume-expander", "persistentvolume-protection", "persistentvolumeclaim-protection",
	"pod-garbage-collector", "replicaset", "replicationcontroller", "resourcequota", "statefulset", "ttl-after-finished",
	"clusterrole-aggregation",
}

// sweepers are the controllers that the [apisim.Collector] simulates.
var sweepers = []string{
	"garbage-collector", "namespace", "persistentvolume-protection", "persistentvolumeclaim-protection",
}

// TestE2EConformanceTable plays every script against the real server and
// compares its answers with the recorded ones. With -update it records them.
func TestE2EConformanceTable(t *testing.T) {
	calm := conformanceCluster(t)
	applyFiles(t, calm, schemaDefinitions)
	byFile := map[string][]conformance.Script{}
	for _, s := range append(conformance.Scripts(t, tables), conformance.Scripts(t, schemaTables)...) {
		byFile[s.File] = append(byFile[s.File], s)
	}
	for file, all := range byFile {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			w := conformance.World{Config: calm.Config(), Settle: func(string) {}}
			if strings.HasSuffix(file, "collector.txt") {
				swept := conformanceCluster(t, sweepers...)
				waitCollected(t, swept.Config())
				w = conformance.World{Config: swept.Config(), Settle: func(path string) { waitQuiet(t, swept.Config(), path) }}
			}
			hold(t, file, all, w)
		})
	}
}

func applyFiles(t *testing.T, cluster *e2e.Cluster, pattern string) {
	t.Helper()
	g := gomega.NewWithT(t)
	files, err := filepath.Glob(pattern)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(files).NotTo(gomega.BeEmpty())
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(cluster.Apply(t.Context(), string(text))).To(gomega.Succeed())
	}
}

// attempts is how often a script is played if its answers differ, because a
// cache of a busy server may be late. For example, it may not have a new quota
// yet.
const attempts = 3

// hold plays the scripts of a file, and compares or records the answers.
func hold(t *testing.T, file string, all []conformance.Script, w conformance.World) {
	t.Helper()
	want, err := os.ReadFile(conformance.Golden(file))
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	var text strings.Builder
	for _, s := range all {
		played := ""
		for n := 0; n < attempts && (n == 0 || !*update && !strings.Contains(string(want), played)); n++ {
			if n > 0 {
				deleteServices(t, w.Config)
			}
			played = "== " + s.Title + "\n" + strings.Join(s.InNewNamespace(n).Run(t, w), "\n") + "\n\n"
		}
		text.WriteString(played)
	}
	if *update {
		err := os.WriteFile(conformance.Golden(file), []byte(text.String()), 0o600)
		gomega.NewWithT(t).Expect(err).To(gomega.Succeed())
		return
	}
	wants, gots := strings.Split(string(want), "\n"), strings.Split(text.String(), "\n")
	for i := range max(len(wants), len(gots)) {
		if i >= len(wants) || i >= len(gots) || wants[i] != gots[i] {
			t.Errorf("%s, line %d\nrecorded: %s\nnow:      %s", conformance.Golden(file), i+1,
				strings.Join(wants[min(i, len(wants)):min(i+1, len(wants))], ""),
				strings.Join(gots[min(i, len(gots)):min(i+1, len(gots))], ""))
		}
	}
}

// deleteServices frees the addresses and ports that an attempt has taken: the
// next one asks for the same.
func deleteServices(t *testing.T, config *rest.Config) {
	t.Helper()
	g := gomega.NewWithT(t)
	client, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	services, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for _, s := range services.Items {
		if s.Name != "kubernetes" {
			g.Expect(client.CoreV1().Services(s.Namespace).Delete(t.Context(), s.Name, metav1.DeleteOptions{})).To(gomega.Succeed())
		}
	}
}

func conformanceCluster(t *testing.T, controllers ...string) *e2e.Cluster {
	t.Helper()
	g := gomega.NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	off := ""
	for _, name := range writers {
		if !slices.Contains(controllers, name) {
			off += ",-" + name + "-controller"
		}
	}
	cluster, err := e2e.Start(ctx, &e2e.Options{Flags: []string{
		"kube-controller-manager:--controllers=" + strings.TrimPrefix(off, ","),
		"kube-apiserver:--disable-admission-plugins=ServiceAccount",
	}})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { _ = cluster.Stop() })
	asRecorded(t, cluster)
	g.Expect(cluster.Apply(ctx, definitions)).To(gomega.Succeed())
	return cluster
}

// waitCollected returns when the garbage collector knows the kinds of the
// definitions: it looks for new ones every 30 seconds.
func waitCollected(t *testing.T, config *rest.Config) {
	t.Helper()
	g := gomega.NewWithT(t)
	client, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	widgets := client.Resource(customResources()[0].GVR()).Namespace(metav1.NamespaceDefault)
	_, err = widgets.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sim.example.com/v1", "kind": "Widget", "metadata": map[string]any{
			"name": "ownerless", "ownerReferences": []any{map[string]any{
				"apiVersion": "sim.example.com/v1", "kind": "Widget", "name": "none", "uid": "none",
			}},
		},
	}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Eventually(func() error {
		_, err := widgets.Get(t.Context(), "ownerless", metav1.GetOptions{})
		return err
	}, 2*time.Minute, time.Second).Should(gomega.MatchError(gomega.ContainSubstring("not found")))
}

// waitQuiet returns when the objects of the scripts have not changed for three
// seconds. If a namespace is being deleted, it waits for 16 seconds without a
// change, because the namespace controller retries after a while.
func waitQuiet(t *testing.T, config *rest.Config, path string) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	last, calm, enough := []string{"not looked yet"}, 0, 3
	if strings.Contains(path, "$ns-x") {
		enough = 16
	}
	for range 100 {
		var now []string
		for _, r := range customAndBuiltin() {
			list, err := client.Resource(r.GVR()).List(t.Context(), metav1.ListOptions{})
			if err != nil || r.Resource == "leases" || r.Resource == "events" {
				continue
			}
			for i := range list.Items {
				now = append(now, string(list.Items[i].GetUID())+list.Items[i].GetResourceVersion())
			}
		}
		if calm++; !slices.Equal(now, last) {
			last, calm = now, 0
		}
		if calm == enough {
			return
		}
		gomega.NewWithT(t).Consistently(t.Context().Err, time.Second).Should(gomega.Succeed()) // a real second
	}
	t.Fatal("the real server does not come to rest")
}
