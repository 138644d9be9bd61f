package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/cluster"
)

// Resource is the name of the resource in URLs and in RBAC rules.
const Resource = "rebootgroups"

// GroupVersion returns the API group and version of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "reboot.homeostat.dev", Version: "v1alpha1"}
}

// A Client reads and writes RebootGroups with the verbs get, list, watch,
// create, update, patch and delete.
type Client = cluster.KindClient[*RebootGroup, *RebootGroupList]

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &RebootGroup{}, &RebootGroupList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// NewClient returns a client for the RebootGroups of a cluster.
func NewClient(c *cluster.Cluster) (*Client, error) {
	groups, err := cluster.NewKind[*RebootGroup, *RebootGroupList](c, GroupVersion().WithResource(Resource), AddToScheme)
	if err != nil {
		return nil, err
	}
	return groups.ClusterScoped().In(metav1.NamespaceNone), nil
}
