package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// installation is the file that has everything of a kustomization.
const installation = "install.yaml"

// header of an installation.
const header = "# Made by make manifests from the kustomization here. Apply it with kubectl apply --server-side -f.\n"

// manifests writes install.yaml beside each kustomization of examples/*/deploy.
func manifests(s settings, names []string, log io.Writer) error {
	folders, err := filepath.Glob(filepath.Join(s.root, "examples", "*", "deploy", "kustomization.yaml"))
	if err != nil {
		return err
	}
	var changed []string
	for _, kustomization := range folders {
		folder := filepath.Dir(kustomization)
		name := filepath.Base(filepath.Dir(folder))
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		text, err := render(folder, s.tag)
		if err != nil {
			return err
		}
		to := filepath.Join(folder, installation)
		if s.into != "" {
			to = filepath.Join(s.into, name+".yaml")
		}
		if before, err := os.ReadFile(to); err == nil && bytes.Equal(before, text) {
			continue
		}
		changed = append(changed, to)
		if s.check {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
		fmt.Fprintln(log, to)
	}
	if s.check && len(changed) > 0 {
		return fmt.Errorf("not as the kustomizations%s (the tag is in examples/release; then run make manifests): %s",
			strings.TrimSuffix(" with tag "+s.tag, " with tag "), strings.Join(changed, ", "))
	}
	return nil
}

// render returns all objects of a kustomization, in an order in which they can be applied. With a tag, the images of
// this repository have it.
func render(folder, tag string) ([]byte, error) {
	objects, err := build(folder)
	if err != nil {
		return nil, err
	}
	text, err := objects.AsYaml()
	if err != nil || tag == "" {
		return append([]byte(header), text...), err
	}
	released, err := releasedTag(filepath.Join(folder, "..", "..", "release", "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	text = bytes.ReplaceAll(text, []byte(":"+released+"\n"), []byte(":"+tag+"\n"))
	return append([]byte(header), text...), nil
}

// build returns the objects of a kustomization.
func build(folder string) (resmap.ResMap, error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", folder, err)
	}
	return objects, nil
}

// releasedTag is the one that the manifests name.
func releasedTag(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var component struct {
		Images []struct{ NewTag string }
	}
	if err := yaml.Unmarshal(text, &component); err != nil {
		return "", fmt.Errorf("reading %s: %w", file, err)
	}
	tags := map[string]bool{}
	var tag string
	for _, i := range component.Images {
		tag = i.NewTag
		tags[tag] = true
	}
	if len(tags) != 1 {
		return "", fmt.Errorf("reading %s: its images have %d tags, want one", file, len(tags))
	}
	return tag, nil
}
