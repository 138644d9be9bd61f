// Package app contains the custom kind App, whose objects refer to Secrets and
// ConfigMaps, and the code that all measured programs share.
package app

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of App.
var GroupVersion = schema.GroupVersion{Group: "bench.homeostat.dev", Version: "v1"}

// Manifest is the CustomResourceDefinition of App, as YAML.
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

// App is the kind of object that the programs of the benchmark reconcile.
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec Spec `json:"spec,omitzero"`
}

// Spec contains the names of the objects to which an App refers. They are in
// the App's namespace.
type Spec struct {
	Secrets   []string `json:"secrets,omitempty"`
	ConfigMap string   `json:"configMap,omitempty"`
}

// AppList is a list of Apps.
type AppList struct { //nolint:revive // a scheme takes the kind from the name of the type
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []App `json:"items"`
}

// DeepCopyObject returns a copy.
func (a *App) DeepCopyObject() runtime.Object {
	c := &App{TypeMeta: a.TypeMeta, ObjectMeta: *a.DeepCopy(), Spec: a.Spec}
	c.Spec.Secrets = slices.Clone(a.Spec.Secrets)
	return c
}

// DeepCopyObject returns a copy.
func (l *AppList) DeepCopyObject() runtime.Object {
	c := &AppList{TypeMeta: l.TypeMeta, ListMeta: *l.DeepCopy()}
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*App))
	}
	return c
}

// AddToScheme adds App and AppList to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &App{}, &AppList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
