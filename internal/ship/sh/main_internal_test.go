package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/interp"
)

func TestScriptsGetTheirArguments(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script.sh")
	const text = "#!/bin/sh\nset -eu\n[ -z \"$2\" ] || exit 3\ncase $1 in -*) echo \"option $1 $#\" ;; esac\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{script, "-x", ""}, strings.NewReader(""), &out, &out); err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"-c", "echo $1", "name", "text"}, strings.NewReader(""), &out, &out); err != nil {
		t.Error(err)
	}
	if got := out.String(); got != "option -x 2\ntext\n" {
		t.Errorf("the scripts say %q", got)
	}
	var status interp.ExitStatus
	err := run(t.Context(), []string{script, "a", "b"}, strings.NewReader(""), &out, &out)
	if !errors.As(err, &status) || status != 3 {
		t.Errorf("a script that exits with 3 ends with %v", err)
	}
	if err := run(t.Context(), []string{script, "a"}, strings.NewReader(""), &out, &out); err == nil {
		t.Error("an argument that is missing is no error, in spite of set -u")
	}
}
