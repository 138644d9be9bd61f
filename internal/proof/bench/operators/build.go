package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Versions that package clientgo and module controllerruntime need.
const (
	kubernetesVersion        = "v0.37.2"
	controllerRuntimeVersion = "v0.25.2"
)

// build builds the program of each variant of an operator, unless it exists.
func (l *laboratory) build(ctx context.Context, o *operator) error {
	if err := l.prepare(ctx, o); err != nil {
		return err
	}
	for _, v := range o.Variants {
		program := l.program(o, v)
		if _, err := os.Stat(program); err == nil {
			continue
		}
		if err := l.apply(o, v); err != nil {
			return err
		}
		if err := l.command(ctx, o, "go", "build", "-ldflags=-w", "-o", program, o.Main); err != nil {
			return err
		}
	}
	return nil
}

func (l *laboratory) program(o *operator, v variant) string {
	return filepath.Join(l.scratch, "bin", o.Name+"-"+v.Name)
}

func (l *laboratory) source(o *operator) string { return filepath.Join(l.scratch, o.Name) }

// prepare copies the module, and changes its requirements to the versions that
// this module needs. It does so once for all variants. So they differ only in
// their edits. If there is a copy already, it does nothing.
func (l *laboratory) prepare(ctx context.Context, o *operator) error {
	folder := l.source(o)
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-x=false", "-json", o.Module+"@"+o.Version).Output()
	if err != nil {
		return fmt.Errorf("downloading %s: %w", o.Module, err)
	}
	_, rest, _ := strings.Cut(string(out), `"Dir": "`)
	cached, _, _ := strings.Cut(rest, `"`)
	if err := copyWritable(folder, cached); err != nil {
		return err
	}
	edits := []string{"mod", "edit"}
	for module, path := range map[string]string{
		"github.com/homeostat/homeostat":                   l.root,
		"github.com/homeostat/homeostat/controllerruntime": filepath.Join(l.root, "controllerruntime"),
	} {
		edits = append(edits, "-require="+module+"@v0.0.0-00010101000000-000000000000", "-replace="+module+"="+path)
	}
	for _, name := range []string{
		"api", "apimachinery", "client-go", "apiserver", "apiextensions-apiserver", "component-base", "component-helpers",
		"metrics", "code-generator",
	} {
		edits = append(edits, "-require=k8s.io/"+name+"@"+kubernetesVersion)
	}
	edits = append(edits, "-require=sigs.k8s.io/controller-runtime@"+controllerRuntimeVersion)
	for _, r := range o.Replaces {
		edits = append(edits, "-replace="+r)
	}
	return l.command(ctx, o, "go", edits...)
}

// copyWritable makes a writable copy of a folder of the module cache, whose
// files are read-only.
func copyWritable(dst, src string) error {
	if err := os.CopyFS(dst, os.DirFS(src)); err != nil {
		return err
	}
	return filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

func (l *laboratory) command(ctx context.Context, o *operator, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = l.source(o)
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false -trimpath -p=1")
	c.Stderr = os.Stderr
	return c.Run()
}

// apply writes the released files with the changes of the operator and of the
// variant.
func (l *laboratory) apply(o *operator, v variant) error {
	for _, alternative := range o.Variants {
		for name := range alternative.Files {
			if err := os.RemoveAll(filepath.Join(l.source(o), name)); err != nil {
				return err
			}
		}
	}
	for _, files := range []map[string]string{o.Files, v.Files} {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(l.source(o), name), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	for name, edits := range o.edits(v) {
		if err := change(filepath.Join(l.source(o), name), edits); err != nil {
			return err
		}
	}
	return nil
}

// change writes a file as it was released, with the edits made in it. The first
// call keeps a copy of the released file.
func change(file string, edits []edit) error {
	released := file + ".released"
	text, err := os.ReadFile(released)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = os.ReadFile(file); err == nil {
			err = os.WriteFile(released, text, 0o644)
		}
	}
	if err != nil {
		return err
	}
	changed := string(text)
	for _, e := range edits {
		if !strings.Contains(changed, e.Old) {
			return fmt.Errorf("%s does not contain %q", file, e.Old)
		}
		changed = strings.ReplaceAll(changed, e.Old, e.New)
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}
