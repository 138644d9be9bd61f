package rival

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A mapper maps every kind to the resource pods, because the caches of this
// package read no other resource. With it controller-runtime does not need to
// ask the server for its resources.
type mapper struct{ meta.RESTMapper }

func (mapper) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	return &meta.RESTMapping{
		Resource:         corev1.SchemeGroupVersion.WithResource("pods"),
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind(kind.Kind),
		Scope:            meta.RESTScopeNamespace,
	}, nil
}
