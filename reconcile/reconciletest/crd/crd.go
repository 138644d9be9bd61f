package crd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	gvk "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Read returns the custom resources that the YAML and JSON files below a folder
// define, for reconciletest.Case.Definitions. Documents of other kinds are
// skipped.
//
// Errors: a file that does not parse, a definition without a storage version or
// with a schema that is not structural, and a folder without any definition.
//
// File names do not matter, and the order is that of their paths: the output of
// controller-gen, a kustomize folder or a Helm chart's crds/ will do.
func Read(folder fs.FS) (apisim.Definitions, error) {
	var all apisim.Definitions
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if ext := path.Ext(name); err != nil || entry.IsDir() || ext != ".yaml" && ext != ".yml" && ext != ".json" {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		found, err := Parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, found...)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("there is no CustomResourceDefinition")
	}
	if err != nil {
		return nil, fmt.Errorf("reading definitions: %w", err)
	}
	return all, nil
}

// Parse is [Read] for the documents of one YAML file: for definitions that are
// embedded in the program, or come from another module.
//
// Errors: those of Read, without a file name. A text without definitions is not
// an error.
func Parse(text []byte) (apisim.Definitions, error) {
	var all apisim.Definitions
	for docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var definition apiextensionsv1.CustomResourceDefinition
		switch err := docs.Decode(&definition); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("parsing a document: %w", err)
		case definition.Kind != "CustomResourceDefinition":
			continue
		}
		r, err := resource(&definition)
		if err != nil {
			return nil, fmt.Errorf("defining %s: %w", definition.Name, err)
		}
		all = append(all, r)
	}
}

// resource returns the resource that the simulated server serves for a
// definition: its storage version.
func resource(d *apiextensionsv1.CustomResourceDefinition) (apisim.Resource, error) {
	names := d.Spec.Names
	r := apisim.Resource{
		Group: d.Spec.Group, Resource: names.Plural, Kind: names.Kind, Singular: names.Singular,
		ShortNames: names.ShortNames, Categories: names.Categories,
		Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if !v.Storage {
			continue
		}
		r.Version = v.Name
		r.Status = v.Subresources != nil && v.Subresources.Status != nil
		for _, f := range v.SelectableFields {
			r.Selectable = append(r.Selectable, strings.TrimPrefix(f.JSONPath, "."))
		}
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			return r, errors.New("the version that is stored has no schema")
		}
		var err error
		kind := gvk.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		r.Schema, err = newSchema(v.Schema.OpenAPIV3Schema, kind)
		return r, err
	}
	return r, errors.New("no version is stored")
}
