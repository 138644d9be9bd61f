package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"strings"
	"text/template"

	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"
)

//go:embed all:template
var templates embed.FS

// values contains the values that the templates insert.
type values struct {
	parameters
	source

	// Object is the Go variable that holds an object of the kind.
	Object string
}

// Line returns the number of a line in the new module's controller.go. n is the
// line's number in the simplest module: its kind is namespaced, and the kind's
// objects do not name a Secret.
func (v values) Line(n int) int {
	if v.ClusterScoped {
		n += 2
	}
	if v.Secret {
		n += 2
	}
	return n
}

// Step returns the number of a step in the trace that the new module's
// README.md shows. n is the step's number if the objects of the kind do not
// name a Secret.
func (v values) Step(n int) int {
	if v.Secret {
		n++
	}
	return n
}

// anyObject is the name of the variable for an object if the kind's own name
// cannot be used, for example because it is a Go keyword. No template uses this
// name for anything else.
const anyObject = "object"

// render returns the files of the new module by their paths in the module.
func render(n parameters, s source) (map[string][]byte, error) {
	v := values{parameters: n, source: s, Object: anyObject}
	files, err := execute(v)
	if err != nil || token.IsKeyword(n.Singular) || identifiers(files)[n.Singular] {
		return files, err
	}
	v.Object = n.Singular
	return execute(v)
}

// execute executes every template, and returns the files by path. It replaces
// VERSION, KIND, GROUP and PLURAL in a template's path with the names. For
// example, api/VERSION/KIND_types.go.tmpl becomes api/v1alpha1/widget_types.go.
func execute(v values) (map[string][]byte, error) {
	const root = "template/"
	paths := strings.NewReplacer(root, "", "VERSION", v.Version, "KIND", v.Singular, "GROUP", v.Group, "PLURAL", v.Plural)
	files := map[string][]byte{}
	return files, fs.WalkDir(templates, path.Clean(root), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		target := paths.Replace(strings.TrimSuffix(name, ".tmpl"))
		text, err := fill(name, v)
		if err == nil && path.Ext(target) == ".go" {
			text, err = format.Source(text)
		}
		if err != nil {
			return fmt.Errorf("rendering %s: %w", target, err)
		}
		if len(bytes.TrimSpace(text)) > 0 { // a file that this kind does not need is empty
			files[target] = text
		}
		return nil
	})
}

// fill executes the template that is in the file with this name, and returns
// the result. The delimiters of the templates are << and >>, because Go code
// can contain {{.
func fill(name string, v values) ([]byte, error) {
	text, err := templates.ReadFile(name)
	if err != nil {
		return nil, err
	}
	functions := template.FuncMap{"yaml": scalar, "gomod": modfile.AutoQuote}
	t, err := template.New(name).Delims("<<", ">>").Funcs(functions).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, v)
	return out.Bytes(), err
}

// scalar returns text as a YAML value. It quotes the text if YAML would not
// read it as a string. For example, it returns "true" with quotes.
func scalar(text string) (string, error) {
	out, err := yaml.Marshal(text)
	return strings.TrimSpace(string(out)), err
}

// identifiers returns the Go identifiers that occur in the Go files among
// files.
func identifiers(files map[string][]byte) map[string]bool {
	found := map[string]bool{}
	for name, text := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		var s scanner.Scanner
		fset := token.NewFileSet()
		s.Init(fset.AddFile(name, fset.Base(), len(text)), text, nil, 0)
		for _, tok, literal := s.Scan(); tok != token.EOF; _, tok, literal = s.Scan() {
			if tok == token.IDENT {
				found[literal] = true
			}
		}
	}
	return found
}
