package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// runShip runs a command that has to succeed, and returns what it prints.
func runShip(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), append([]string{"-root", root, "-tag", "v9.8.7"}, args...), &out); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// One program stands for all: they are built by the same code.
func TestTheSameProgramHasTheSameDigest(t *testing.T) {
	if testing.Short() {
		t.Skip("an image takes a minute: make verify-deploy runs this")
	}
	folder := t.TempDir()
	one := runShip(t, "-out", folder, "podlog")
	two := runShip(t, "-out", filepath.Join(folder, "two"), "podlog")
	if one != two || !strings.HasPrefix(one, "ship.localhost/podlog:v9.8.7@sha256:") {
		t.Errorf("two builds are %s and %s", one, two)
	}
	server := httptest.NewServer(registry.New())
	defer server.Close()
	pushed := runShip(t, "-to", strings.TrimPrefix(server.URL, "http://")+"/team", "podlog")
	_, digest, _ := strings.Cut(one, "@")
	if !strings.HasSuffix(pushed, "/team/podlog:v9.8.7@"+digest) {
		t.Errorf("pushed %s, want %s", pushed, digest)
	}

	top, err := layout.ImageIndexFromPath(filepath.Join(folder, "podlog"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	entries, err := top.IndexManifest()
	if err != nil || len(entries.Manifests) != 1 {
		t.Fatalf("%v, %v: want one entry", entries, err)
	}
	if got := entries.Manifests[0].Annotations["io.containerd.image.name"]; got != "ghcr.io/homeostat/podlog:v9.8.7" {
		t.Errorf("containerd would load it as %s", got)
	}
	all, err := top.ImageIndex(entries.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := all.IndexManifest()
	if err != nil || len(platforms.Manifests) != 2 {
		t.Fatalf("%v, %v: want an image for each of two platforms", platforms, err)
	}
	image, err := all.Image(platforms.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	saysWhatItIs(t, image)
}

// saysWhatItIs: the image runs the program as a user without privileges, and
// has certificates.
func saysWhatItIs(t *testing.T, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config.Labels["org.opencontainers.image.version"]; got != "v9.8.7" {
		t.Errorf("the label says version %q", got)
	}
	if config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/ko-app/podlog" {
		t.Errorf("the image runs %v as %s", config.Config.Entrypoint, config.Config.User)
	}
	content := mutate.Extract(image)
	defer content.Close()
	found := map[string]bool{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[strings.Trim(header.Name, "/")] = true
		if header.Name == "etc/ssl/certs/ca-certificates.crt" {
			text, err := io.ReadAll(archive)
			if err != nil || !x509.NewCertPool().AppendCertsFromPEM(text) {
				t.Errorf("no certificates: %v", err)
			}
		}
		if header.Name == "tmp/" && header.Mode&0o1777 != 0o1777 {
			t.Errorf("the mode of /tmp is %o", header.Mode)
		}
	}
	for _, want := range []string{"etc/passwd", "tmp", "ko-app/podlog", "etc/ssl/certs/ca-certificates.crt"} {
		if !found[want] {
			t.Errorf("there is no %s in the image: %v", want, found)
		}
	}
}

func TestTheImageOfObserveHasWhatItsScriptsCall(t *testing.T) {
	if testing.Short() {
		t.Skip("an image takes a minute: make verify-deploy runs this")
	}
	folder, clone := t.TempDir(), t.TempDir() // a worktree has no commit for the go command
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "--shared", root, clone).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runShip(t, "-root", clone, "-unpack", folder, "-platforms", "linux/"+runtime.GOARCH, "observe")
	for _, name := range []string{"ko-app/observe", "bin/sh", "bin/kubectl"} {
		if info, err := os.Stat(filepath.Join(folder, "observe", name)); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s: %v, %v: want a program", name, info, err)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	program := filepath.Join(folder, "observe", "ko-app", "observe")
	out, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "(commit ") || strings.Contains(string(out), "unknown") {
		t.Errorf("%s --version says %q, %v; want a commit", program, out, err)
	}
}

func TestThereIsNoOtherProgram(t *testing.T) {
	if err := run(t.Context(), []string{"podlogs"}, io.Discard); err == nil || !strings.Contains(err.Error(), "podlog,") {
		t.Errorf("an unknown name: %v", err)
	}
}
