// Package v1 is the API of Websites.
//
// +kubebuilder:object:generate=true
// +groupName=web.homeostat.dev
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of Websites.
var GroupVersion = schema.GroupVersion{Group: "web.homeostat.dev", Version: "v1"}

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Website{}, &WebsiteList{})
	return nil
}

// Website describes a web server that visitors reach through a CDN. The name of
// a Website must be a DNS label, because its Service has the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Host,type=string,JSONPath=.spec.host
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Message,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')"
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   WebsiteSpec   `json:"spec"`
	Status WebsiteStatus `json:"status,omitzero"`
}

// WebsiteSpec is the desired state.
type WebsiteSpec struct {
	// Host is the host name under which visitors reach the website.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Host string `json:"host"`
	// Image is the container image of a web server that listens on port 8080.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// Replicas is the number of Pods.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// SecretName is the name of a Secret in the same namespace. The web server
	// gets the Secret's keys and values as environment variables, and is
	// restarted when they change.
	// +kubebuilder:validation:MinLength=1
	SecretName string `json:"secretName"`
}

// WebsiteStatus is the result of the last reconcile.
type WebsiteStatus struct {
	// ObservedGeneration is the generation that was reconciled last.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions contains the condition Ready.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WebsiteList is a list of Websites.
//
// +kubebuilder:object:root=true
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Website `json:"items"`
}
