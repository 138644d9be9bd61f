// Package app is a kind of its own whose objects refer to Secrets and
// ConfigMaps, and what the measured programs have in common.
package app

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is where the kind is served.
var GroupVersion = schema.GroupVersion{Group: "bench.homeostat.dev", Version: "v1"}

// Manifest is the CustomResourceDefinition.
const Manifest = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.bench.homeostat.dev}
spec:
  group: bench.homeostat.dev
  names: {kind: App, listKind: AppList, plural: apps, singular: app}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              secrets: {type: array, items: {type: string}}
              configMap: {type: string}
`

// App is what the programs reconcile.
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec Spec `json:"spec,omitempty"`
}

// Spec names what an App refers to, in its own namespace.
type Spec struct {
	Secrets   []string `json:"secrets,omitempty"`
	ConfigMap string   `json:"configMap,omitempty"`
}

// AppList is a list of Apps.
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []App `json:"items"`
}

// DeepCopyObject returns a copy.
func (a *App) DeepCopyObject() runtime.Object {
	c := &App{TypeMeta: a.TypeMeta, ObjectMeta: *a.ObjectMeta.DeepCopy(), Spec: a.Spec}
	c.Spec.Secrets = slices.Clone(a.Spec.Secrets)
	return c
}

// DeepCopyObject returns a copy.
func (l *AppList) DeepCopyObject() runtime.Object {
	c := &AppList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*App))
	}
	return c
}

// AddToScheme adds the kind to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &App{}, &AppList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
