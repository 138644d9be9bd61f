package crd

import (
	"fmt"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gvk "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// typesOf returns the types that tell server-side apply how to merge objects of
// a kind: which lists are maps, which are sets, and which are atomic.
func typesOf(s *structural.Structural, kind gvk.GroupVersionKind) (managedfields.TypeConverter, error) {
	root := s.ToKubeOpenAPI()
	embed(root, true)
	root.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind},
	})
	models := map[string]*spec.Schema{kind.String(): root}
	for name, definition := range openapi.GetOpenAPIDefinitions(ref) {
		if strings.Contains(name, ".apis.meta.v1.") {
			models[name] = &definition.Schema
		}
	}
	types, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		return nil, fmt.Errorf("reading the schema for server-side apply: %w", err)
	}
	return types, nil
}

// ref refers to a model by its name.
func ref(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }

// embed adds metadata to the schema of each Kubernetes object. These are the
// root, and the parts that the schema marks as embedded resources.
func embed(s *spec.Schema, root bool) {
	for name, p := range s.Properties {
		embed(&p, false)
		s.Properties[name] = p
	}
	if s.Items != nil {
		embed(s.Items.Schema, false)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		embed(s.AdditionalProperties.Schema, false)
	}
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); !embedded && !root {
		return
	}
	s.SetProperty("apiVersion", *spec.StringProperty())
	s.SetProperty("kind", *spec.StringProperty())
	s.SetProperty("metadata", spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(metav1.ObjectMeta{}.OpenAPIModelName())}})
}
