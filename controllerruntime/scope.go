package controllerruntime

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// scope is the part of a kind that the options of a cache let in.
type scope struct {
	kind schema.GroupVersionKind
	// namespaces has the settings of each namespace, cache.AllNamespaces among
	// them; empty if config is for all objects.
	namespaces map[string]cache.Config
	config     cache.Config
}

// scopeOf returns the scope of a kind, defaulted in controller-runtime's order.
func scopeOf(o *cache.Options, kind schema.GroupVersionKind, namespaced bool) (scope, error) {
	s, defaults := scope{kind: kind}, cache.Config{
		LabelSelector: o.DefaultLabelSelector, FieldSelector: o.DefaultFieldSelector, Transform: o.DefaultTransform,
		UnsafeDisableDeepCopy: o.DefaultUnsafeDisableDeepCopy, SyncPeriod: o.SyncPeriod,
	}
	by, err := byObject(o, kind)
	if err != nil {
		return scope{}, err
	}
	own := cache.Config{
		LabelSelector: by.Label, FieldSelector: by.Field, Transform: by.Transform,
		UnsafeDisableDeepCopy: by.UnsafeDisableDeepCopy, SyncPeriod: by.SyncPeriod,
	}
	s.config = completed(own, defaults)
	if !namespaced {
		return s, nil
	}
	namespaces := by.Namespaces
	if namespaces == nil {
		namespaces = o.DefaultNamespaces
	}
	s.namespaces = map[string]cache.Config{}
	for namespace, c := range namespaces {
		s.namespaces[namespace] = completed(completed(completed(c, own), o.DefaultNamespaces[namespace]), defaults)
	}
	return s, nil
}

// byObject returns the settings of a kind alone.
func byObject(o *cache.Options, kind schema.GroupVersionKind) (cache.ByObject, error) {
	for example, by := range o.ByObject {
		of, err := apiutil.GVKForObject(example, o.Scheme)
		if err != nil {
			return cache.ByObject{}, err
		}
		if of == kind {
			return by, nil
		}
	}
	return cache.ByObject{}, nil
}

// completed returns c with what it does not set from another config.
func completed(c, from cache.Config) cache.Config {
	c.LabelSelector = cmp.Or(c.LabelSelector, from.LabelSelector)
	c.FieldSelector = cmp.Or(c.FieldSelector, from.FieldSelector)
	c.UnsafeDisableDeepCopy = cmp.Or(c.UnsafeDisableDeepCopy, from.UnsafeDisableDeepCopy)
	c.SyncPeriod = cmp.Or(c.SyncPeriod, from.SyncPeriod)
	if c.Transform == nil {
		c.Transform = from.Transform
	}
	return c
}

// in returns the settings of a namespace, "" for all namespaces or for a kind
// without them.
func (s *scope) in(namespace string) (cache.Config, error) {
	if len(s.namespaces) == 0 {
		return s.config, nil
	}
	if c, ok := s.namespaces[namespace]; ok {
		return c, nil
	}
	if c, ok := s.namespaces[cache.AllNamespaces]; ok {
		return c, nil
	}
	return cache.Config{}, fmt.Errorf("reading %s in namespace %q: the namespace is not one of the cache's",
		s.kind.Kind, namespace)
}
