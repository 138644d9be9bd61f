package apisim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/conformance"
)

// customResources returns the custom resources of the scenarios: widgets with a
// status, and gadgets without one.
func customResources() []apisim.Resource {
	return []apisim.Resource{
		{Group: "sim.example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true},
		{Group: "sim.example.com", Version: "v1", Resource: "gadgets", Kind: "Gadget"},
	}
}

// TestConformance compares the simulator with the answers of the real server,
// which testdata/conformance/*.golden record. TestE2EConformance compares the
// real server with the same files, and writes them with -update.
func TestConformance(t *testing.T) {
	for _, file := range scenarios(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := gomega.NewWithT(t)
				sim, err := apisim.New(&apisim.Options{Resources: customResources(), Lifecycle: true})
				g.Expect(err).NotTo(gomega.HaveOccurred())
				compare(t, file, conformance.Play(t, sim.Admin(), file))
			})
		})
	}
}

func scenarios(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/conformance/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding scenarios: %v, %v", files, err)
	}
	return files
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(conformance.Golden(file))
	if err != nil {
		t.Fatalf("reading the recorded answers: %v", err)
	}
	wants, gots := strings.Split(string(want), "\n\n"), strings.Split(got, "\n\n")
	for i := range max(len(wants), len(gots)) {
		w, have := "(nothing)", "(nothing)"
		if i < len(wants) {
			w = wants[i]
		}
		if i < len(gots) {
			have = gots[i]
		}
		if w != have {
			t.Errorf("%s, step %d\nrecorded:\n%s\nnow:\n%s", file, i+1, w, have)
		}
	}
}
