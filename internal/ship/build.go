package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// binary is a built program, with the build information that the go command recorded.
type binary struct {
	content  []byte
	info     *buildinfo.BuildInfo
	commit   string    // "unknown" outside of a repository
	modified bool      // since that commit
	time     time.Time // of the commit; 1970 without one
}

// compile builds the package in a folder below dir for a platform, by the go.mod of its module, statically, and with no trace of this machine.
func compile(ctx context.Context, dir, source string, platform v1.Platform) (binary, error) {
	folder, err := os.MkdirTemp("", "ship-")
	if err != nil {
		return binary{}, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "program")
	var errors bytes.Buffer
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=auto", "-ldflags=-s -w", "-o", file, ".")
	command.Dir, command.Stderr = filepath.Join(dir, source), &errors
	// Settings of a user for other builds must not affect this one.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture,
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0")
	if err := command.Run(); err != nil {
		return binary{}, fmt.Errorf("building %s for %s: %w\n%s", source, platform, err, &errors)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return binary{}, err
	}
	return inspect(content)
}

// inspect reads the build information.
func inspect(content []byte) (binary, error) {
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return binary{}, fmt.Errorf("reading the build information: %w", err)
	}
	b := binary{content: content, info: info, commit: "unknown", time: time.Unix(0, 0).UTC()}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.commit = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		case "vcs.time":
			if b.time, err = time.Parse(time.RFC3339, s.Value); err != nil {
				return binary{}, fmt.Errorf("reading the time of the commit: %w", err)
			}
		}
	}
	return b, nil
}

// version returns the version of the main module, as --version prints it.
func (b binary) version() string { return cmp.Or(b.info.Main.Version, "(devel)") }

// tag is the version as the tag of an image, which may have no plus.
func (b binary) tag() string {
	return cmp.Or(strings.Trim(strings.ReplaceAll(b.version(), "+", "-"), "()"), "devel")
}
