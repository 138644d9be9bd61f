package api

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Resource is the name of the resource in URLs and in RBAC rules.
const Resource = "rebootgroups"

// GroupVersion returns the API group and version of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "reboot.homeostat.dev", Version: "v1alpha1"}
}

// A Client reads and writes RebootGroups: get, list, watch, create, update,
// patch and delete.
type Client = gentype.ClientWithList[*RebootGroup, *RebootGroupList]

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &RebootGroup{}, &RebootGroupList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// NewForConfig returns a client for the server of c.
func NewForConfig(c *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", Resource, err)
	}
	config := rest.CopyConfig(c)
	version := GroupVersion()
	config.GroupVersion = &version
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", Resource, err)
	}
	return gentype.NewClientWithList[*RebootGroup, *RebootGroupList](
		Resource, client, runtime.NewParameterCodec(scheme), metav1.NamespaceNone,
		func() *RebootGroup { return &RebootGroup{} },
		func() *RebootGroupList { return &RebootGroupList{} },
	), nil
}
