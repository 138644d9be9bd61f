package results_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/mod/semver"

	"github.com/homeostat/homeostat/internal/proof/published/results"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

func TestEachExplorationIsKept(t *testing.T) {
	g := gomega.NewWithT(t)
	file := filepath.Join(t.TempDir(), "results.jsonl")
	g.Expect(os.WriteFile(file, []byte("{}\n"), 0o600)).To(gomega.Succeed())
	t.Setenv(results.Variable, file)
	idle := &reconciletest.Case{Run: func(env *reconciletest.Env) error {
		<-env.Context().Done()
		return nil
	}}
	report := results.Search(t, semver.Compare, idle, &reconciletest.Options{Budget: time.Minute})

	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(text)).To(gomega.HavePrefix("{}\n"), "it is added")
	var kept results.Result
	g.Expect(json.Unmarshal(text[len("{}\n"):], &kept)).To(gomega.Succeed())
	g.Expect(kept.Version).To(gomega.HavePrefix("v0."))
	kept.Version, kept.Elapsed, kept.Processor = "", 0, 0
	g.Expect(kept).To(gomega.Equal(results.Result{
		Test: "TestEachExplorationIsKept", Module: "mod", Runs: report.Runs, Ended: true,
		Oracle: report.Oracle, Lines: len(report.Trace), Failure: report.Failure,
	}))
}
