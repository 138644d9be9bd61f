package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/yaml"
)

// A chart is a Helm chart: the objects of a kustomization, with values for the fields users change. It has no
// Namespace: helm creates that.
type chart struct {
	name, version string
	files         []file
}

// charts writes a chart for each kustomization of examples/*/deploy: a folder, and the archive that helm installs.
func charts(s settings, names []string, log io.Writer) error {
	if s.into == "" {
		return errors.New("want -into DIR, where the charts go")
	}
	kustomizations, err := filepath.Glob(filepath.Join(s.root, "examples", "*", "deploy", "kustomization.yaml"))
	if err != nil {
		return err
	}
	for _, kustomization := range kustomizations {
		example := filepath.Dir(filepath.Dir(kustomization))
		if len(names) > 0 && !slices.Contains(names, filepath.Base(example)) {
			continue
		}
		c, err := chartOf(example, s.tag)
		if err != nil {
			return fmt.Errorf("making the chart of %s: %w", example, err)
		}
		archive, err := c.write(s.into)
		if err != nil {
			return err
		}
		fmt.Fprintln(log, archive)
	}
	return nil
}

// chartOf makes the chart of an example. Its version and that of its images are the tag. Defaults to the released one.
func chartOf(example, tag string) (*chart, error) {
	released, err := releasedTag(filepath.Join(example, "..", "release", "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	base, err := build(filepath.Join(example, "deploy"))
	if err != nil {
		return nil, err
	}
	all, err := build(filepath.Join(example, "overlays", "monitored"))
	if err != nil {
		return nil, err
	}
	tag = cmp.Or(tag, released)
	t := &templater{chart: filepath.Base(example), released: released, tag: tag}
	templates, err := t.templates(all, base)
	if err != nil {
		return nil, err
	}
	c := &chart{name: t.chart, version: strings.TrimPrefix(tag, "v")}
	values := slices.Concat(t.values, t.general)
	text, err := values.text("")
	if err != nil {
		return nil, err
	}
	schema, err := values.schema()
	if err != nil {
		return nil, err
	}
	metadata, err := yaml.Marshal(map[string]any{
		"apiVersion": "v2", "type": "application", "name": c.name, "version": c.version, "appVersion": tag,
		"description": aboutOf(base), "home": source, "sources": []string{source},
	})
	if err != nil {
		return nil, err
	}
	c.add("Chart.yaml", metadata)
	c.add("templates/NOTES.txt", []byte(t.notes()))
	for _, kind := range slices.Sorted(maps.Keys(templates)) {
		c.add("templates/"+strings.ToLower(kind)+".yaml", []byte(strings.Join(templates[kind], "---\n")))
	}
	c.add("values.schema.json", schema)
	c.add("values.yaml", []byte(text))
	return c, nil
}

func (c *chart) add(name string, content []byte) {
	c.files = append(c.files, file{name: name, content: content, mode: 0o644})
}

// write replaces the folder, and writes the archive, which is the same for the same files. It returns the archive's
// name.
func (c *chart) write(into string) (string, error) {
	folder := filepath.Join(into, c.name)
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	packed := slices.Clone(c.files)
	for i, f := range c.files {
		name := filepath.Join(folder, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(name, f.content, 0o644); err != nil {
			return "", err
		}
		packed[i].name = c.name + "/" + f.name
	}
	archive, err := layer(packed, time.Unix(0, 0))
	if err != nil {
		return "", err
	}
	content, err := archive.Compressed()
	if err != nil {
		return "", err
	}
	defer content.Close()
	text, err := io.ReadAll(content)
	if err != nil {
		return "", err
	}
	name := filepath.Join(into, c.name+"-"+c.version+".tgz")
	return name, os.WriteFile(name, text, 0o644)
}

// aboutOf describes the programs of an installation.
func aboutOf(all resmap.ResMap) string {
	var about []string
	text, err := all.AsYaml()
	for _, p := range programs {
		if err == nil && strings.Contains(string(text), " image: "+p.registry()+p.name+":") {
			about = append(about, p.about)
		}
	}
	return strings.Join(about, ". ")
}
