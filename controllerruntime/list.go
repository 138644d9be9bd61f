package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errListsRefused is the error of List if Options.RefuseLists is set.
var errListsRefused = errors.New("objects of this kind are cached on demand, and Options.RefuseLists is set")

// addField adds a field that selectors of List may contain. The server does not
// know the field, so list itself evaluates it.
func (k *kind) addField(field string, values client.IndexerFunc) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fields[field] != nil {
		return fmt.Errorf("indexing %s by field %q: the index exists already", k.gvk.Kind, field)
	}
	k.fields[field] = values
	return nil
}

// list reads the objects that o selects from the server into out. It leaves out
// objects that the cache would not have if it cached the whole kind.
func (k *kind) list(ctx context.Context, out client.ObjectList, o *client.ListOptions) error {
	switch {
	case k.cache.RefuseLists:
		return fmt.Errorf("listing %s: %w", k.gvk.Kind, errListsRefused)
	case !k.cache.isStarted():
		return &cache.ErrCacheNotStarted{}
	}
	namespaces, err := k.listed(o.Namespace)
	if err != nil {
		return err
	}
	asked, matches := k.divide(o)
	var items []runtime.Object
	for _, namespace := range namespaces {
		found, err := k.listIn(ctx, out, namespace, asked)
		if err != nil {
			return fmt.Errorf("listing %s: %w", k.gvk.Kind, unproven(err))
		}
		for _, item := range found {
			// The server cannot be asked with labels.Nothing.
			labelled := o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(item.GetLabels()))
			if labelled && k.hasOwnSettings(item, namespace) && matches(item) {
				items = append(items, item)
			}
		}
	}
	if o.Limit > 0 && int64(len(items)) > o.Limit && len(namespaces) > 1 {
		items = items[:o.Limit]
	}
	return meta.SetList(out, items)
}

// listed returns the namespaces that must be listed for a List of namespace.
// The empty string stands for all namespaces. Namespaces with settings of their
// own, such as a selector, are listed one by one.
func (k *kind) listed(namespace string) ([]string, error) {
	if !k.isNamespaced() || namespace == "" && len(k.scope.namespaces) == 0 {
		return []string{""}, nil
	}
	if namespace == "" {
		return slices.Sorted(maps.Keys(k.scope.namespaces)), nil
	}
	_, err := k.scope.configFor(namespace)
	return []string{namespace}, err
}

// hasOwnSettings reports whether an object was listed with the settings that
// apply to its namespace. listed is the namespace that was listed, or "" for
// all namespaces. If the namespace of the object has settings of its own, a
// list of all namespaces does not use them.
func (k *kind) hasOwnSettings(item client.Object, listed string) bool {
	_, own := k.scope.namespaces[item.GetNamespace()]
	return listed == item.GetNamespace() || !own
}

// listIn lists one namespace into out, and returns the objects.
func (k *kind) listIn(
	ctx context.Context, out client.ObjectList, namespace string, o client.ListOptions,
) (found []client.Object, err error) {
	r := k.reader(namespace)
	opts := r.selecting(metav1.ListOptions{
		Limit: o.Limit, Continue: o.Continue, FieldSelector: selectorText(o.FieldSelector),
	})
	opts.LabelSelector = intersect(o.LabelSelector, opts.LabelSelector)
	if err := k.cache.live.List(ctx, out, opts); err != nil {
		return nil, err
	}
	err = meta.EachListItem(out, func(item runtime.Object) error {
		object, err := r.prepare(item)
		if err == nil {
			object.GetObjectKind().SetGroupVersionKind(k.gvk)
			found = append(found, object)
		}
		return err
	})
	return found, err
}

func selectorText(s fields.Selector) string {
	if s == nil {
		return ""
	}
	return s.String()
}

// intersect returns a selector for the objects that both a and b select. A nil
// selector selects all objects.
func intersect(a, b labels.Selector) labels.Selector {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	requirements, selectable := a.Requirements()
	if !selectable {
		return a
	}
	return b.Add(requirements...)
}

// divide divides the selectors of a list between the server and the indexes.
// asked contains the options for the server. It has no limit if a field of an
// index is selected, because the server would count objects that are then left
// out. matches evaluates the fields of IndexField, which the server does not
// know.
func (k *kind) divide(o *client.ListOptions) (asked client.ListOptions, matches func(client.Object) bool) {
	asked = *o
	if o.FieldSelector == nil {
		return asked, func(client.Object) bool { return true }
	}
	k.mu.Lock()
	indexes := maps.Clone(k.fields)
	k.mu.Unlock()
	var indexed []fields.Requirement
	var server []fields.Selector
	for _, r := range o.FieldSelector.Requirements() {
		switch {
		case indexes[r.Field] != nil:
			indexed = append(indexed, r)
		case r.Operator == selection.NotEquals:
			server = append(server, fields.OneTermNotEqualSelector(r.Field, r.Value))
		default:
			server = append(server, fields.OneTermEqualSelector(r.Field, r.Value))
		}
	}
	asked.FieldSelector = fields.AndSelectors(server...)
	if len(indexed) > 0 {
		asked.Limit = 0
	}
	return asked, func(object client.Object) bool {
		return !slices.ContainsFunc(indexed, func(r fields.Requirement) bool {
			matched := slices.Contains(indexes[r.Field](object), r.Value)
			return matched == (r.Operator == selection.NotEquals)
		})
	}
}
