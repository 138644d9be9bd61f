package main

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestEveryManifestHasATrial(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*/deploy/install.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("looking for manifests: found %q: %v", files, err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		if !slices.ContainsFunc(trials, func(trial trial) bool { return trial.name == name }) {
			t.Errorf("make verify-deploy does not start the programs of examples/%s: add a trial", name)
		}
	}
}
