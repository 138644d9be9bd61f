package informer

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// A scope is what an informer watches of its kind.
type scope struct {
	labels labels.Selector
	fields fields.Selector
}

func newScope(o *Options) scope {
	s := scope{labels: labels.Everything(), fields: fields.Everything()}
	if selector, err := labels.Parse(o.LabelSelector); err == nil {
		s.labels = selector
	}
	if selector, err := fields.ParseSelector(o.FieldSelector); err == nil {
		s.fields = selector
	}
	return s
}

// Matches tells whether obj, as it is, belongs into this cache: by namespace,
// labels and fields. Fields are compared as they stand in obj; a field that it
// does not have is empty.
func (i *Informer[T]) Matches(obj metav1.Object) bool {
	if !i.inScope(obj.GetNamespace()) || !i.scope.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if i.scope.fields.Empty() {
		return true
	}
	return i.scope.fields.Matches(fieldsOf(obj, i.scope.fields))
}

func (i *Informer[T]) inScope(namespace string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.ContainsFunc(i.sources, func(s source) bool { return s.namespace == "" || s.namespace == namespace })
}

// fieldsOf returns the values of those fields of obj that selector asks for.
func fieldsOf(obj metav1.Object, selector fields.Selector) fields.Set {
	set := fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}
	var content map[string]any
	for _, requirement := range selector.Requirements() {
		if _, ok := set[requirement.Field]; ok {
			continue
		}
		if content == nil {
			content = map[string]any{}
			if converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err == nil {
				content = converted
			}
		}
		value, _, _ := unstructured.NestedString(content, strings.Split(requirement.Field, ".")...)
		set[requirement.Field] = value
	}
	return set
}
