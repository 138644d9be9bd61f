package apisim

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

const openAPIPath = "/openapi/v3"

// openAPI serves OpenAPI v3: the index, and one document for each group and
// version. The schemas of built-in kinds are derived from the Go types, with
// their descriptions, formats and patch strategies, but without the defaults of
// fields.
func (s catalogue) openAPI(path string) (*output, bool) {
	if path == openAPIPath {
		paths := object{}
		for _, gv := range s.versions() {
			paths[rootOf(gv)] = object{"serverRelativeURL": openAPIPath + "/" + rootOf(gv)}
		}
		return encoded(object{"paths": paths})
	}
	root, found := strings.CutPrefix(path, openAPIPath+"/")
	if !found {
		return nil, false
	}
	for _, gv := range s.versions() {
		if rootOf(gv) == root {
			return encoded(s.document(gv))
		}
	}
	return nil, false
}

func rootOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

func (s catalogue) document(gv schema.GroupVersion) object {
	paths, models := object{}, models{}
	for _, r := range s.discoverable() {
		if r.gvk().GroupVersion() != gv {
			continue
		}
		base := "/" + rootOf(gv) + "/"
		if r.Namespaced {
			base += "namespaces/{namespace}/"
		}
		ref := models.kind(&r)
		paths[base+r.Resource] = operations(&r, ref, "get", "post", "delete")
		paths[base+r.Resource+"/{name}"] = operations(&r, ref, "get", "put", "patch", "delete")
		if r.Status {
			paths[base+r.Resource+"/{name}/status"] = operations(&r, ref, "get", "put", "patch")
		}
	}
	return object{
		"openapi": "3.0.0", "info": object{"title": "Kubernetes", "version": serverVersion},
		"paths": paths, "components": object{"schemas": models},
	}
}

// operations describes the methods of a path. It has only the parts that
// clients read: the kind, the schema of the answer, and the parameters.
func operations(r *Resource, ref object, methods ...string) object {
	byMethod := object{}
	content := object{"application/json": object{"schema": ref}}
	for _, m := range methods {
		op := object{
			"x-kubernetes-group-version-kind": object{"group": r.Group, "version": r.Version, "kind": r.Kind},
			"responses":                       object{"200": object{"description": "OK", "content": content}},
		}
		if m != "get" && m != "delete" {
			op["parameters"] = []object{parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")}
		}
		byMethod[m] = op
	}
	return byMethod
}

func parameter(name string) object {
	return object{"name": name, "in": "query", "schema": object{"type": "string", "uniqueItems": true}}
}

// models holds the schemas of a document by name.
type models object

// kind adds the schema of a resource's kind and returns a reference to it.
func (m models) kind(r *Resource) object {
	gvk := []object{{"group": r.Group, "version": r.Version, "kind": r.Kind}}
	if typed, err := scheme.Scheme.New(r.gvk()); err == nil && r.builtin.typed {
		t := reflect.TypeOf(typed).Elem()
		ref := m.schemaOf(t)
		m[modelName(t)].(object)["x-kubernetes-group-version-kind"] = gvk
		return ref
	}
	var model object
	if r.Schema != nil {
		model = r.Schema.OpenAPI()
	}
	if model == nil {
		model = object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	model["x-kubernetes-group-version-kind"] = gvk
	name := r.Group + "." + r.Version + "." + r.Kind
	m[name] = model
	return reference(name)
}

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func modelName(t reflect.Type) string {
	if named, ok := reflect.TypeAssert[interface{ OpenAPIModelName() string }](reflect.New(t)); ok {
		return named.OpenAPIModelName()
	}
	return strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + t.Name()
}

// describesItself is implemented by types that report how they encode.
type describesItself interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

var (
	marshals = reflect.TypeFor[json.Marshaler]()
	prints   = reflect.TypeFor[encoding.TextMarshaler]()
)

// schemaOf returns the schema of a Go type, or a reference to it.
func (m models) schemaOf(t reflect.Type) object {
	if s, ok := reflect.TypeAssert[describesItself](reflect.New(t)); ok {
		return scalar(s.OpenAPISchemaType(), s.OpenAPISchemaFormat())
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.schemaOf(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "format": "byte"}
		}
		return object{"type": "array", "items": m.schemaOf(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": m.schemaOf(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int32, reflect.Int64, reflect.Int:
		return object{"type": "integer", "format": fmt.Sprintf("int%d", t.Bits())}
	case reflect.Float64, reflect.Float32:
		return object{"type": "number"}
	case reflect.Struct:
		return m.structure(t)
	}
	return object{}
}

// scalar returns the schema of a type that encodes itself. If types is empty,
// it is the schema of an object with any members.
func scalar(types []string, format string) object {
	if len(types) == 0 {
		return object{"type": "object"}
	}
	s := object{"type": types[0]}
	if format != "" {
		s["format"] = format
	}
	return s
}

func (m models) structure(t reflect.Type) object {
	name := modelName(t)
	if _, known := m[name]; known {
		return reference(name)
	}
	model := object{"type": "object"}
	m[name] = model // added before its fields, since a type may contain itself
	if p := reflect.PointerTo(t); p.Implements(marshals) || p.Implements(prints) {
		return reference(name) // its encoding is not known
	}
	docs := map[string]string{}
	if d, ok := reflect.TypeAssert[interface{ SwaggerDoc() map[string]string }](reflect.New(t)); ok {
		docs = d.SwaggerDoc()
	}
	if docs[""] != "" {
		model["description"] = docs[""]
	}
	properties := object{}
	m.fields(t, docs, properties)
	model["properties"] = properties
	return reference(name)
}

func (m models) fields(t reflect.Type, docs map[string]string, properties object) {
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" || !f.IsExported() {
			continue
		}
		if tag == "" && (f.Anonymous || strings.Contains(options, "inline")) {
			m.inline(f.Type, docs, properties)
			continue
		}
		property := m.schemaOf(f.Type)
		if _, isRef := property["$ref"]; isRef { // siblings of a reference are ignored
			property = object{"allOf": []object{property}, "default": object{}}
		}
		for _, key := range []string{"patchStrategy", "patchMergeKey"} {
			if v := f.Tag.Get(key); v != "" {
				property[map[string]string{
					"patchStrategy": "x-kubernetes-patch-strategy", "patchMergeKey": "x-kubernetes-patch-merge-key",
				}[key]] = v
			}
		}
		if docs[tag] != "" {
			property["description"] = docs[tag]
		}
		properties[tag] = property
	}
}

// inline adds the fields of an embedded struct, with the struct's own
// descriptions if it has any.
func (m models) inline(t reflect.Type, docs map[string]string, properties object) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if d, ok := reflect.TypeAssert[interface{ SwaggerDoc() map[string]string }](reflect.New(t)); ok {
		docs = d.SwaggerDoc()
	}
	if t.Kind() == reflect.Struct {
		m.fields(t, docs, properties)
	}
}
