package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"strings"
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

// archiveOf returns the files of a base image as a tar archive. The archive has
// a link in /bin for each of the tools that ko adds to the image later. The
// files have no modification times, because the archive must be the same in
// every build.
func archiveOf(tools []string) ([]byte, error) {
	// authorities are the certificate authorities that Mozilla trusts, as the
	// Go project publishes them. Authorities that are trusted only under a
	// condition are left out, because a PEM file cannot express a condition.
	var authorities, archive bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// A bytes.Buffer takes everything, and a block without headers is
			// always valid.
			_ = pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	files := fstest.MapFS{
		"etc/group": {Mode: 0o644, Data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		"etc/passwd": {Mode: 0o644, Data: []byte(
			"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n")},
		"etc/ssl/certs/ca-certificates.crt": {Mode: 0o644, Data: authorities.Bytes()},
		"tmp":                               {Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	for _, tool := range tools {
		files["bin/"+tool] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte("../ko-app/" + tool)}
	}
	w := tar.NewWriter(&archive)
	err := errors.Join(w.AddFS(files), w.Close())
	return archive.Bytes(), err
}

// pushBase makes a base image, pushes it to the registry on loopback, and
// returns its reference.
func (s *ship) pushBase(ctx context.Context, tools []string) (string, error) {
	archive, err := archiveOf(tools)
	if err != nil {
		return "", err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return "", err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for text := range strings.SplitSeq(s.platforms, ",") {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return "", err
		}
		start := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		image, err := mutate.ConfigFile(start, &v1.ConfigFile{
			OS: platform.OS, Architecture: platform.Architecture, RootFS: v1.RootFS{Type: "layers"},
			Config: v1.Config{WorkingDir: "/", Env: []string{"PATH=/bin"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}}},
		})
		if err == nil {
			image, err = mutate.AppendLayers(image, layer)
		}
		if err != nil {
			return "", err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	reference, err := name.ParseReference(s.address + "/base")
	if err != nil {
		return "", err
	}
	return host + "/base", remote.WriteIndex(reference, index, remote.WithContext(ctx))
}
