package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	folder := t.TempDir()
	const text = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.2.0] - 2026-01-01\n\n- second\n\n## [0.1.0]\n\n- first\n"
	if err := os.WriteFile(filepath.Join(folder, "CHANGELOG.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]string{
		"v0.1.0": "# v0.1.0\n\n- first\n", "v0.2.0": "# v0.2.0\n\n- second\n", "v0.3.0": "# v0.3.0\n\n- new\n",
	} {
		var got bytes.Buffer
		if err := run(t.Context(), []string{"notes", "-root", folder, "-tag", tag}, &got); err != nil || got.String() != want {
			t.Errorf("the notes of %s are %q, %v; want %q", tag, &got, err, want)
		}
	}
}
