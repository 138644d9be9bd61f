package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Kustomize builds both folders that make deploy of a new operator takes.
func TestKustomizeBuildsANewOperator(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "widget")
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "run", ".",
		"-group=example.com", "-kind=Widget", "-dir="+folder, "-replace="+checkout)
	command.Dir = filepath.Join(root, "operator", "new")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for config, wants := range map[string][]string{
		"config": {"kind: Deployment\n"},
		"monitoring": {
			"kind: Deployment\n", "kind: PodMonitor\n", "kind: PrometheusRule\n",
			"grafana_dashboard: \"1\"\n", "dashboard.json: |",
		},
	} {
		text, err := render(filepath.Join(folder, config))
		if err != nil {
			t.Errorf("%s: %v", config, err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", config, want)
			}
		}
	}
}
