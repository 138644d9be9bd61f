package controllerruntime

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// scope describes which objects of a kind the options of a cache select.
type scope struct {
	kind schema.GroupVersionKind
	// namespaces has the settings of each namespace, or of cache.AllNamespaces.
	// If it is empty, config applies to all objects.
	namespaces map[string]cache.Config
	config     cache.Config
}

// scopeOf returns the scope of a kind, defaulted in controller-runtime's order.
func scopeOf(o *cache.Options, kind schema.GroupVersionKind, namespaced bool) (scope, error) {
	s, defaults := scope{kind: kind}, cache.Config{
		LabelSelector: o.DefaultLabelSelector, FieldSelector: o.DefaultFieldSelector, Transform: o.DefaultTransform,
		UnsafeDisableDeepCopy: o.DefaultUnsafeDisableDeepCopy, SyncPeriod: o.SyncPeriod,
	}
	settings, err := byObject(o, kind)
	if err != nil {
		return scope{}, err
	}
	own := cache.Config{
		LabelSelector: settings.Label, FieldSelector: settings.Field, Transform: settings.Transform,
		UnsafeDisableDeepCopy: settings.UnsafeDisableDeepCopy, SyncPeriod: settings.SyncPeriod,
	}
	s.config = completed(own, defaults)
	if !namespaced {
		return s, nil
	}
	namespaces := settings.Namespaces
	if namespaces == nil {
		namespaces = o.DefaultNamespaces
	}
	s.namespaces = map[string]cache.Config{}
	for namespace, c := range namespaces {
		s.namespaces[namespace] = completed(completed(completed(c, own), o.DefaultNamespaces[namespace]), defaults)
	}
	return s, nil
}

// byObject returns the settings in cache.Options.ByObject for a kind.
func byObject(o *cache.Options, kind schema.GroupVersionKind) (cache.ByObject, error) {
	for example, settings := range o.ByObject {
		gvk, err := apiutil.GVKForObject(example, o.Scheme)
		if err != nil {
			return cache.ByObject{}, err
		}
		if gvk == kind {
			return settings, nil
		}
	}
	return cache.ByObject{}, nil
}

// completed returns c. Fields that c does not set have the values of defaults.
func completed(c, defaults cache.Config) cache.Config {
	c.LabelSelector = cmp.Or(c.LabelSelector, defaults.LabelSelector)
	c.FieldSelector = cmp.Or(c.FieldSelector, defaults.FieldSelector)
	c.UnsafeDisableDeepCopy = cmp.Or(c.UnsafeDisableDeepCopy, defaults.UnsafeDisableDeepCopy)
	c.SyncPeriod = cmp.Or(c.SyncPeriod, defaults.SyncPeriod)
	if c.Transform == nil {
		c.Transform = defaults.Transform
	}
	return c
}

// configFor returns the settings of a namespace, or an error if the cache does
// not read the namespace. namespace is empty for all namespaces, and for a kind
// that has no namespaces.
func (s *scope) configFor(namespace string) (cache.Config, error) {
	if len(s.namespaces) == 0 {
		return s.config, nil
	}
	if c, ok := s.namespaces[namespace]; ok {
		return c, nil
	}
	if c, ok := s.namespaces[cache.AllNamespaces]; ok {
		return c, nil
	}
	return cache.Config{}, fmt.Errorf("reading %s in namespace %q: the cache does not read this namespace",
		s.kind.Kind, namespace)
}
