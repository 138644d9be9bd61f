package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// fieldManager is the owner of the fields that Apply sets.
const fieldManager = "e2e"

// Apply applies the objects of one or more YAML texts in order, by server-side
// apply with force. A namespaced object without a namespace is created in
// "default". After a CustomResourceDefinition, Apply waits until its resource
// is served, because later objects may use it.
func (c *Cluster) Apply(ctx context.Context, manifests ...string) error {
	for _, text := range manifests {
		objects, err := decode(text)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := c.apply(ctx, o); err != nil {
				return fmt.Errorf("applying %s %q: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// decode returns the objects of a YAML text with any number of documents. It
// skips empty documents.
func decode(text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), len(text)); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading a manifest after %d objects: %w", len(objects), err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("reading a manifest after %d objects: the next one lacks apiVersion, kind or name",
				len(objects))
		}
		objects = append(objects, o)
	}
}

func (c *Cluster) apply(ctx context.Context, o *unstructured.Unstructured) error {
	mapping, err := c.mapping(o.GroupVersionKind())
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = c.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resource = c.dynamic.Resource(mapping.Resource).Namespace(namespace)
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := resource.Apply(ctx, o.GetName(), o, options); err != nil {
		return err
	}
	definition := schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	if mapping.GroupVersionKind.GroupKind() == definition {
		return c.awaitServed(ctx, resource, o.GetName())
	}
	return nil
}

// mapping finds the resource of a kind. If the kind is not in the discovery
// cache, mapping reads the kinds from the server again.
func (c *Cluster) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	return mapping, err
}

// awaitServed waits until the definition is established and discovery shows its
// kind in every served version.
func (c *Cluster) awaitServed(ctx context.Context, definitions dynamic.ResourceInterface, name string) error {
	return poll(ctx, func(ctx context.Context) (bool, error) {
		crd, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil || !established(crd) {
			return false, err
		}
		for _, kind := range servedKinds(crd) {
			if _, err := c.mapping(kind); meta.IsNoMatchError(err) {
				return false, nil
			} else if err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions") // A wrong type is not established.
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
			return true
		}
	}
	return false
}

func servedKinds(crd *unstructured.Unstructured) []schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group") // The server has checked the types.
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var kinds []schema.GroupVersionKind
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			version, _ := m["name"].(string)
			kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
		}
	}
	return kinds
}
