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

// errListsRefused is for lists with Options.RefuseLists.
var errListsRefused = errors.New("objects of this kind are cached on demand, and Options.RefuseLists is set")

// addField adds a field by which list selects. The server does not know it.
func (k *kind) addField(field string, values client.IndexerFunc) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fields[field] != nil {
		return fmt.Errorf("indexing %s by field %q: there is such an index already", k.gvk.Kind, field)
	}
	k.fields[field] = values
	return nil
}

// list asks the server for what the cache would have, if it had all objects.
func (k *kind) list(ctx context.Context, out client.ObjectList, o *client.ListOptions) error {
	switch {
	case k.by.RefuseLists:
		return fmt.Errorf("listing %s: %w", k.gvk.Kind, errListsRefused)
	case !k.by.isStarted():
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
			return fmt.Errorf("listing %s: %w", k.gvk.Kind, err)
		}
		for _, item := range found {
			labelled := o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(item.GetLabels())) // or labels.Nothing
			if labelled && k.isOf(item, namespace) && matches(item) {
				items = append(items, item)
			}
		}
	}
	if o.Limit > 0 && int64(len(items)) > o.Limit && len(namespaces) > 1 {
		items = items[:o.Limit]
	}
	return meta.SetList(out, items)
}

// listed returns the namespaces to list, each with settings of its own.
func (k *kind) listed(namespace string) ([]string, error) {
	if !k.isNamespaced() || namespace == "" && len(k.scope.namespaces) == 0 {
		return []string{""}, nil
	}
	if namespace == "" {
		return slices.Sorted(maps.Keys(k.scope.namespaces)), nil
	}
	_, err := k.scope.in(namespace)
	return []string{namespace}, err
}

// isOf reports whether the settings with which an object was listed are those
// of its namespace.
func (k *kind) isOf(item client.Object, listed string) bool {
	_, own := k.scope.namespaces[item.GetNamespace()]
	return listed == item.GetNamespace() || !own
}

// listIn lists one namespace into out, and returns what it has found.
func (k *kind) listIn(
	ctx context.Context, out client.ObjectList, namespace string, o client.ListOptions,
) (found []client.Object, err error) {
	r := k.reader(namespace)
	opts := r.selecting(metav1.ListOptions{
		Limit: o.Limit, Continue: o.Continue, FieldSelector: selectorText(o.FieldSelector),
	})
	opts.LabelSelector = both(o.LabelSelector, opts.LabelSelector)
	if err := k.by.live.List(ctx, out, opts); err != nil {
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

// both returns the selector of what two others select; nil if both are.
func both(a, b labels.Selector) labels.Selector {
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

// divide returns what the server is asked for, and what an index of IndexField
// decides.
func (k *kind) divide(o *client.ListOptions) (asked client.ListOptions, matches func(client.Object) bool) {
	asked = *o
	if o.FieldSelector == nil {
		return asked, func(client.Object) bool { return true }
	}
	k.mu.Lock()
	indexes := maps.Clone(k.fields)
	k.mu.Unlock()
	var own []fields.Requirement
	var server []fields.Selector
	for _, r := range o.FieldSelector.Requirements() {
		switch {
		case indexes[r.Field] != nil:
			own = append(own, r)
		case r.Operator == selection.NotEquals:
			server = append(server, fields.OneTermNotEqualSelector(r.Field, r.Value))
		default:
			server = append(server, fields.OneTermEqualSelector(r.Field, r.Value))
		}
	}
	asked.FieldSelector = fields.AndSelectors(server...)
	if len(own) > 0 {
		asked.Limit = 0
	}
	return asked, func(object client.Object) bool {
		return !slices.ContainsFunc(own, func(r fields.Requirement) bool {
			has := slices.Contains(indexes[r.Field](object), r.Value)
			return has == (r.Operator == selection.NotEquals)
		})
	}
}
