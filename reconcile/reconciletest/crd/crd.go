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

// Definitions are the custom resources that the simulated server serves. They
// are the value of reconciletest.Case.Definitions.
type Definitions []Definition

// A Definition is a custom resource, with its schema.
type Definition struct{ resource apisim.Resource }

// Parts returns what only package reconciletest needs.
func (d Definitions) Parts() (resources []apisim.Resource) {
	for _, definition := range d {
		resources = append(resources, definition.resource)
	}
	return resources
}

// Read returns the custom resources that the YAML and JSON files below a folder
// define, for reconciletest.Case.Definitions. Documents of other kinds are
// skipped.
//
// Of each definition, the simulated server serves only the storage version. Read
// returns an error if a file does not parse, if a definition has no storage
// version, if that version has no schema or a schema that is not structural, or
// if the folder has no definition.
//
// The files may have any names, and are read in the order of their paths. The
// folder may be the output of controller-gen, a kustomize folder, or the crds/
// of a Helm chart.
func Read(folder fs.FS) (Definitions, error) {
	var definitions Definitions
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
			return fmt.Errorf("reading the definitions in %s: %w", name, err)
		}
		definitions = append(definitions, found...)
		return nil
	})
	if err == nil && len(definitions) == 0 {
		err = errors.New("there is no CustomResourceDefinition")
	}
	if err != nil {
		return nil, fmt.Errorf("reading definitions: %w", err)
	}
	return definitions, nil
}

// Parse is [Read] for the documents of one YAML file. Use it for definitions
// that are embedded in the program or are part of another module.
//
// Parse returns the errors of Read, without a file name. It returns no error
// for a text without definitions.
func Parse(text []byte) (Definitions, error) {
	var definitions Definitions
	for docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var definition apiextensionsv1.CustomResourceDefinition
		switch err := docs.Decode(&definition); {
		case errors.Is(err, io.EOF):
			return definitions, nil
		case err != nil:
			return nil, fmt.Errorf("parsing a document: %w", err)
		case definition.Kind != "CustomResourceDefinition":
			continue
		}
		r, err := resource(&definition)
		if err != nil {
			return nil, fmt.Errorf("defining %s: %w", definition.Name, err)
		}
		definitions = append(definitions, Definition{r})
	}
}

// resource returns the resource that the simulated server serves for a
// definition. The server serves only the storage version.
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
			return r, errors.New("the storage version has no schema")
		}
		var err error
		kind := gvk.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		r.Schema, err = newSchema(v.Schema.OpenAPIV3Schema, kind)
		return r, err
	}
	return r, errors.New("no version is the storage version")
}
