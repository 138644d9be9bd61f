package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// source is where the programs come from.
const source = "https://github.com/homeostat/homeostat"

// image builds a program for a platform. The binary is the program's own.
func image(ctx context.Context, root string, p program, platform v1.Platform) (v1.Image, binary, error) {
	b, err := compile(ctx, root, p.source, platform)
	if err != nil {
		return nil, binary{}, err
	}
	base, err := layer(common(), time.Unix(0, 0))
	if err != nil {
		return nil, binary{}, err
	}
	layers := []mutate.Addendum{described(base, "certificates, users, /tmp")}
	binaries := []binary{b}
	var tools []file
	for _, name := range slices.Sorted(maps.Keys(p.tools)) {
		tool, err := compile(ctx, filepath.Join(root, "internal", "ship"), p.tools[name], platform)
		if err != nil {
			return nil, binary{}, err
		}
		binaries = append(binaries, tool)
		tools = append(tools, file{name: name, content: tool.content, mode: 0o755})
	}
	if len(tools) > 0 {
		l, err := layer(append([]file{{name: "bin/", mode: 0o755}}, tools...), b.time)
		if err != nil {
			return nil, binary{}, err
		}
		layers = append(layers, described(l, "tools of scripts"))
	}
	bill, err := billOfMaterials(p, binaries...)
	if err != nil {
		return nil, binary{}, fmt.Errorf("listing the modules of %s: %w", p.name, err)
	}
	own, err := layer([]file{
		{name: p.name, content: b.content, mode: 0o755},
		{name: "usr/", mode: 0o755},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/sbom/", mode: 0o755},
		{name: "usr/share/sbom/" + p.name + ".cdx.json", content: bill, mode: 0o644},
	}, b.time)
	if err != nil {
		return nil, binary{}, err
	}
	made, err := assemble(p, b, platform, append(layers, described(own, "go build "+p.source)))
	return made, b, err
}

func described(l v1.Layer, by string) mutate.Addendum {
	return mutate.Addendum{Layer: l, MediaType: types.OCILayer, History: v1.History{CreatedBy: by}}
}

func assemble(p program, b binary, platform v1.Platform, layers []mutate.Addendum) (v1.Image, error) {
	user := nonroot
	if p.root {
		user = 0
	}
	for i := range layers {
		layers[i].History.Created = v1.Time{Time: b.time}
	}
	config := &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Created: v1.Time{Time: b.time},
		Config: v1.Config{
			Entrypoint: []string{"/" + p.name}, User: strconv.Itoa(user) + ":" + strconv.Itoa(user), WorkingDir: "/",
			Env: []string{"PATH=/bin"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}}, Labels: labels(p, b),
		},
		RootFS: v1.RootFS{Type: "layers"},
	}
	start := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(start, config)
	if err != nil {
		return nil, err
	}
	if img, err = mutate.Append(img, layers...); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, labels(p, b)).(v1.Image), nil
}

// labels describes the image with the OCI's standard labels.
func labels(p program, b binary) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":    p.name,
		"org.opencontainers.image.version":  b.version(),
		"org.opencontainers.image.revision": b.commit,
		"org.opencontainers.image.created":  b.time.UTC().Format(time.RFC3339),
	}
	if p.about != "" { // one of this repository
		all["org.opencontainers.image.description"] = p.about
		all["org.opencontainers.image.source"] = source
		all["org.opencontainers.image.licenses"] = "Apache-2.0"
	}
	return all
}

// index builds a program for all platforms.
func index(ctx context.Context, root string, p program, platforms []v1.Platform) (v1.ImageIndex, binary, error) {
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var first binary
	for i, platform := range platforms {
		img, b, err := image(ctx, root, p, platform)
		if err != nil {
			return nil, binary{}, err
		}
		if i == 0 {
			first = b
			all = mutate.Annotations(all, labels(p, b)).(v1.ImageIndex)
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return all, first, nil
}

// platformsOf reads a list such as linux/amd64,linux/arm64.
func platformsOf(list string) ([]v1.Platform, error) {
	var all []v1.Platform
	for text := range strings.SplitSeq(list, ",") {
		p, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, err
		}
		if p.OS == "" || p.Architecture == "" {
			return nil, fmt.Errorf("platform %q: want one such as linux/amd64", text)
		}
		all = append(all, *p)
	}
	return all, nil
}
