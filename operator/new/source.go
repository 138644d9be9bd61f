package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/mod/modfile"
)

// homeostat is the path of the library's module, and scaffold the path of this
// program's module. Every release gives both modules the same version.
const (
	homeostat = "github.com/homeostat/homeostat"
	scaffold  = homeostat + "/operator/new"
)

// source is the version or the checkout of Homeostat that the new module uses.
type source struct {
	Homeostat string // the version of Homeostat
	Replace   string // the folder of a checkout that replaces the version, or empty
}

// sourceOf returns the source of Homeostat for the new module: the checkout in
// the folder that replace names or, if replace is empty, the version of
// Homeostat with which this program was released. info describes how this
// program was built.
func sourceOf(info *debug.BuildInfo, replace string) (source, error) {
	if replace != "" {
		return checkout(replace)
	}
	m := moduleOf(info)
	switch {
	case m == nil || m.Version == "" || m.Version == "(devel)" || strings.HasSuffix(m.Version, "+dirty"):
		return source{}, errors.New("this program was built from a checkout, which no module can require by a version: " +
			"name its folder, as in --replace ../homeostat")
	case m.Replace == nil:
		return source{Homeostat: m.Version}, nil
	case m.Replace.Version == "": // Path is the folder of the scaffold in a checkout
		return checkout(filepath.Join(m.Replace.Path, "..", ".."))
	}
	return source{}, fmt.Errorf("this program was built with %s %s in place of %s: name the folder of a checkout "+
		"with --replace",
		m.Replace.Path, m.Replace.Version, scaffold)
}

// moduleOf returns the scaffold's module from the modules that info lists, or
// nil if info does not list it.
func moduleOf(info *debug.BuildInfo) *debug.Module {
	if info == nil {
		return nil
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == scaffold {
			return m
		}
	}
	return nil
}

// checkout returns the source for a checkout of Homeostat. It returns an error
// if the folder contains no such checkout.
func checkout(folder string) (source, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return source{}, fmt.Errorf("--replace: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return source{}, fmt.Errorf("--replace is %q: must be the folder of a checkout of Homeostat: %w", folder, err)
	}
	if path := modfile.ModulePath(text); path != homeostat {
		return source{}, fmt.Errorf("--replace is %q: must be a checkout of %s, not of %q", folder, homeostat, path)
	}
	return source{Homeostat: "v0.0.0", Replace: folder}, nil
}
