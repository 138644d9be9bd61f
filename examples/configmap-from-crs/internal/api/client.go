package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/cluster"
)

// These are the names of a Setting in URLs and in RBAC rules.
const (
	Group    = "config.homeostat.dev"
	Version  = "v1alpha1"
	Resource = "settings"
	Kind     = "Setting"
)

// Settings reads and writes the Settings of one namespace, or of all
// namespaces.
type Settings = *cluster.KindClient[*Setting, *SettingList]

// GroupVersion returns the group and version of this package.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &Setting{}, &SettingList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// NewKind returns a source of clients for Settings.
func NewKind(c *cluster.Cluster) (*cluster.Kind[*Setting, *SettingList], error) {
	return cluster.NewKind[*Setting, *SettingList](c, GroupVersion().WithResource(Resource), AddToScheme)
}
