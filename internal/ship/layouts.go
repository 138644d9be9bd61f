package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// The annotations of the entry of a layout: its tag, and the name under which containerd, and with it kind and docker,
// load it.
const (
	referenceAnnotation = "org.opencontainers.image.ref.name"
	nameAnnotation      = "io.containerd.image.name"
)

// images writes an OCI layout for each program, with one entry: the image for all platforms.
func images(ctx context.Context, s settings, chosen []program, log io.Writer) error {
	root, err := filepath.Abs(s.root)
	if err != nil {
		return err
	}
	platforms, err := platformsOf(s.platforms)
	if err != nil {
		return err
	}
	if s.commit != "" {
		copied, discard, err := checkout(ctx, root, s.commit)
		if err != nil {
			return err
		}
		defer discard()
		root = copied
	}
	for _, p := range chosen {
		began := time.Now()
		all, b, err := index(ctx, root, p, platforms)
		if err != nil {
			return err
		}
		tag := b.tag()
		if s.tag != "" {
			tag = s.tag
		}
		folder := filepath.Join(s.out, p.name)
		if err := write(folder, all, map[string]string{
			referenceAnnotation: tag, nameAnnotation: p.registry() + p.name + ":" + tag,
		}); err != nil {
			return fmt.Errorf("writing %s: %w", folder, err)
		}
		digest, err := all.Digest()
		if err != nil {
			return err
		}
		size, err := transferred(all)
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "%s:%s@%s  %.1f MB for %d platforms, %v\n", p.name, tag, digest, float64(size)/1e6, len(platforms),
			time.Since(began).Round(time.Second/10))
	}
	return nil
}

// write replaces the layout in a folder.
func write(folder string, all v1.ImageIndex, annotations map[string]string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(all, layout.WithAnnotations(annotations))
}

// read returns the image of a layout, and its tag.
func read(folder string) (v1.ImageIndex, string, error) {
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, "", fmt.Errorf("reading the image in %s (make images writes it): %w", folder, err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, "", err
	}
	if len(manifest.Manifests) != 1 {
		return nil, "", fmt.Errorf("reading the image in %s: it has %d entries, want one", folder, len(manifest.Manifests))
	}
	all, err := top.ImageIndex(manifest.Manifests[0].Digest)
	return all, manifest.Manifests[0].Annotations[referenceAnnotation], err
}

// transferred is the size of all layers, as they are sent.
func transferred(all v1.ImageIndex) (int64, error) {
	manifest, err := all.IndexManifest()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, m := range manifest.Manifests {
		img, err := all.Image(m.Digest)
		if err != nil {
			return 0, err
		}
		layers, err := img.Layers()
		if err != nil {
			return 0, err
		}
		for _, l := range layers {
			size, err := l.Size()
			if err != nil {
				return 0, err
			}
			sum += size
		}
	}
	return sum, nil
}

// push sends images to a registry, with the credentials that docker login or its helpers have left.
func push(ctx context.Context, s settings, chosen []program, log io.Writer) error {
	if s.registry == "" {
		return errors.New("where to push is missing: -to REGISTRY")
	}
	for _, p := range chosen {
		all, tag, err := read(filepath.Join(s.out, p.name))
		if err != nil {
			return err
		}
		if s.tag != "" {
			tag = s.tag
		}
		reference, err := name.NewTag(s.registry + "/" + p.name + ":" + tag)
		if err != nil {
			return err
		}
		credentials := remote.WithAuthFromKeychain(authn.DefaultKeychain)
		if err := remote.WriteIndex(reference, all, remote.WithContext(ctx), credentials); err != nil {
			return fmt.Errorf("pushing %s: %w", reference, err)
		}
		digest, err := all.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "%s@%s\n", reference, digest)
	}
	return nil
}

// unpack writes the files of images for one platform, each to a directory of its own.
func unpack(s settings, chosen []program) error {
	platforms, err := platformsOf(s.platforms)
	if err != nil {
		return err
	}
	if len(platforms) != 1 || s.into == "" {
		return fmt.Errorf("want one platform, and -into DIR\n%s", usage)
	}
	for _, p := range chosen {
		all, _, err := read(filepath.Join(s.out, p.name))
		if err != nil {
			return err
		}
		img, err := imageFor(all, platforms[0])
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", p.name, err)
		}
		into := filepath.Join(s.into, p.name)
		if err := os.RemoveAll(into); err != nil {
			return err
		}
		files := mutate.Extract(img)
		if err := errors.Join(extract(tar.NewReader(files), into), files.Close()); err != nil {
			return err
		}
	}
	return nil
}

// imageFor returns the one for a platform.
func imageFor(all v1.ImageIndex, platform v1.Platform) (v1.Image, error) {
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		if m.Platform != nil && m.Platform.Satisfies(platform) {
			return all.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("there is no image for %s", platform)
}

// extract writes directories and files; images of this command have nothing else. It never leaves the directory.
func extract(from *tar.Reader, directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Clean(header.Name)
		mode := header.FileInfo().Mode()
		switch header.Typeflag {
		case tar.TypeDir:
			err = errors.Join(root.MkdirAll(path, 0o755), root.Chmod(path, mode))
		case tar.TypeReg:
			err = save(root, path, from, mode.Perm())
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", header.Name)
		}
		if err == nil && os.Geteuid() == 0 {
			err = root.Chown(path, header.Uid, header.Gid)
		}
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", header.Name, err)
		}
	}
}

func save(root *os.Root, path string, content io.Reader, mode os.FileMode) error {
	f, err := root.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
