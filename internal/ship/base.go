package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// files returns the files of a base image. Files in a MapFS have no times, so
// they do not differ from build to build.
func files() fstest.MapFS {
	// authorities are the certificate authorities that Mozilla trusts, as the
	// Go project publishes them. Authorities that are trusted only under a
	// condition are left out, because a PEM file cannot express a condition.
	var authorities bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// A bytes.Buffer takes everything, and a block without headers is
			// always valid.
			_ = pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return fstest.MapFS{
		"etc/group": {Mode: 0o644, Data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		"etc/passwd": {Mode: 0o644, Data: []byte(
			"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n")},
		"etc/ssl/certs/ca-certificates.crt": {Mode: 0o644, Data: authorities.Bytes()},
		"tmp":                               {Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
}

// pushBase makes a base image and pushes it to the registry on loopback. Each
// of tools is a subdirectory of this package, and becomes a program in /bin.
func (s *ship) pushBase(ctx context.Context, base string, tools ...string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range s.platforms {
		content := files()
		for _, tool := range tools {
			program, err := s.compile(ctx, tool, platform)
			if err != nil {
				return err
			}
			content["bin/"+tool] = &fstest.MapFile{Mode: 0o755, Data: program}
		}
		image, err := imageOf(content, platform)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	reference, err := name.ParseReference(host + "/" + base)
	if err != nil {
		return err
	}
	return remote.WriteIndex(reference, index, s.remote(ctx)...)
}

// compile builds the program in the subdirectory tool of this package and
// returns its bytes.
func (s *ship) compile(ctx context.Context, tool string, platform *v1.Platform) ([]byte, error) {
	folder, err := os.MkdirTemp("", "ship-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, tool)
	env := []string{"CGO_ENABLED=0", "GOOS=" + platform.OS, "GOARCH=" + platform.Architecture}
	err = s.goCommand(ctx, "internal/ship", env,
		"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./"+tool).Run()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(program)
}

// goCommand returns the go command for a folder of the repository. It overrides
// environment variables with which a user changes builds, such as GOFLAGS.
func (s *ship) goCommand(ctx context.Context, folder string, env []string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Stderr = filepath.Join(s.root, folder), os.Stderr
	command.Env = append(os.Environ(), "GOFLAGS=-buildvcs=auto", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1",
		"GOARM64=v8.0", "HTTP_PROXY="+s.proxy)
	command.Env = append(command.Env, env...)
	return command
}

// imageOf returns an image with one layer, which has the files of content.
func imageOf(content fs.FS, platform *v1.Platform) (v1.Image, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.AddFS(content), w.Close()); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	start := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(start, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{WorkingDir: "/", Env: []string{"PATH=/bin"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}}},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}
