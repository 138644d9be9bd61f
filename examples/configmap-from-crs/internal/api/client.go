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

// What a Setting is called in URLs and in RBAC rules.
const (
	Group    = "config.homeostat.dev"
	Version  = "v1alpha1"
	Resource = "settings"
	Kind     = "Setting"
)

// Settings reads and writes the Settings of one namespace, or of all.
type Settings = *gentype.ClientWithList[*Setting, *SettingList]

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	version := schema.GroupVersion{Group: Group, Version: Version}
	s.AddKnownTypes(version, &Setting{}, &SettingList{})
	metav1.AddToGroupVersion(s, version)
	return nil
}

// NewForConfig returns a function that gives the client of a namespace.
func NewForConfig(c *rest.Config) (func(namespace string) Settings, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", Resource, err)
	}
	config := rest.CopyConfig(c)
	config.GroupVersion = &schema.GroupVersion{Group: Group, Version: Version}
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", Resource, err)
	}
	parameters := runtime.NewParameterCodec(scheme)
	return func(namespace string) Settings {
		return gentype.NewClientWithList[*Setting, *SettingList](Resource, client, parameters, namespace,
			func() *Setting { return &Setting{} }, func() *SettingList { return &SettingList{} })
	}, nil
}
