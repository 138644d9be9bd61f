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

// homeostat is the module of the library, and scaffold the module of this program.
// Both are released under one version.
const (
	homeostat = "github.com/homeostat/homeostat"
	scaffold  = homeostat + "/operator/new"
)

// source is the version or the checkout of Homeostat that the new module uses.
type source struct {
	Homeostat string // the version
	Replace   string // the folder of a checkout that replaces the version, or empty
}

// sourceOf returns the checkout in the folder replace. If replace is empty, it
// returns the version of Homeostat that this program belongs to.
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
	case m.Replace.Version == "": // the folder of the scaffold
		return checkout(filepath.Join(m.Replace.Path, "..", ".."))
	}
	return source{}, fmt.Errorf("this program was built where %s %s replaces %s: name a checkout of it by --replace",
		m.Replace.Path, m.Replace.Version, scaffold)
}

// moduleOf returns the scaffold among the modules of a program, or nil.
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
		return source{}, fmt.Errorf("--replace is %q: must be a checkout of %s, is one of %q", folder, homeostat, path)
	}
	return source{Homeostat: "v0.0.0", Replace: folder}, nil
}
