package smoke

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// usual lists the namespaces that every cluster has.
var usual = []string{"default", "kube-system", "kube-public", "kube-node-lease"}

// accountWithin limits the time until a new namespace has its default
// ServiceAccount. Pods need that account.
const accountWithin = 30 * time.Second

// remote is a real server behind a World.
type remote struct {
	config    *rest.Config // the configuration with the administrator's credentials
	dynamic   dynamic.Interface
	resources []apisim.Resource // the resources that can be listed and watched, each in one version
	older     map[types.UID]*unstructured.Unstructured
	uids      map[types.UID]types.UID // UIDs of the server, by UID in the case
	asOf      *past                   // the objects to show while Always is checked; nil means the present objects
}

// serverResources returns the resources that can be listed and watched, in the
// version that the case names or the server prefers.
func serverResources(config *rest.Config, c *reconciletest.Case) ([]apisim.Resource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, lists, err := client.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("listing the server's resources: %w", err)
	}
	wanted := map[schema.GroupVersionResource]bool{}
	for _, r := range c.Resources {
		wanted[schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}] = true
	}
	found := map[schema.GroupResource]apisim.Resource{}
	for _, list := range preferredFirst(groups, lists) {
		for _, r := range resourcesOf(list) {
			_, known := found[r.GVR().GroupResource()]
			if !known || wanted[r.GVR()] {
				found[r.GVR().GroupResource()] = r
			}
			delete(wanted, r.GVR())
		}
	}
	for missing := range wanted {
		return nil, fmt.Errorf("finding Case.Resources %s of version %s: the server does not have it: install its CRD first",
			missing.GroupResource(), missing.Version)
	}
	return slices.SortedFunc(maps.Values(found), func(a, b apisim.Resource) int {
		return strings.Compare(a.GVR().String(), b.GVR().String())
	}), nil
}

// preferredFirst returns the lists in another order: of each group, the
// preferred version is before the other versions, which are in the server's
// order. The lists of different groups are mixed.
func preferredFirst(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []*metav1.APIResourceList {
	rank := map[string]int{}
	for _, group := range groups {
		for i, v := range group.Versions {
			rank[v.GroupVersion] = i + 1
		}
		rank[group.PreferredVersion.GroupVersion] = 0
	}
	sorted := slices.Clone(lists)
	slices.SortFunc(sorted, func(a, b *metav1.APIResourceList) int {
		return cmp.Compare(rank[a.GroupVersion], rank[b.GroupVersion])
	})
	return sorted
}

func resourcesOf(list *metav1.APIResourceList) []apisim.Resource {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return nil
	}
	var resources []apisim.Resource
	for _, r := range list.APIResources {
		ignored := state.Ignored(schema.GroupResource{Group: gv.Group, Resource: r.Name})
		if ignored || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
			continue
		}
		status := func(s metav1.APIResource) bool { return s.Name == r.Name+"/status" }
		resources = append(resources, apisim.Resource{
			Group: gv.Group, Version: gv.Version, Resource: r.Name, Kind: r.Kind, Namespaced: r.Namespaced,
			Status: slices.ContainsFunc(list.APIResources, status),
		})
	}
	return resources
}

// Config returns the administrator's configuration.
func (r *remote) Config() *rest.Config { return rest.CopyConfig(r.config) }

// Resources returns the resources that can be listed and watched, each in one
// version.
func (r *remote) Resources() []apisim.Resource { return r.resources }

// Version returns 0, because a real server does not count its writes.
func (r *remote) Version() int64 { return 0 }

// Objects returns the objects of a resource that a World shows, sorted by
// namespace and name. While Always is checked, they are as they were after the
// checked write.
func (r *remote) Objects(res apisim.Resource) ([]*unstructured.Unstructured, error) {
	if r.asOf != nil {
		return r.asOf.objects(res, r.visible), nil
	}
	list, err := r.dynamic.Resource(res.GVR()).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", res.Resource, err)
	}
	var objects []*unstructured.Unstructured
	for i := range list.Items {
		if o := &list.Items[i]; r.visible(res.Resource, o) {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, byName)
	return objects, nil
}

func byName(a, b *unstructured.Unstructured) int {
	return strings.Compare(state.KeyOf(a), state.KeyOf(b))
}

// visible reports whether a World shows o. Apart from the usual namespaces, it
// does not show objects that the cluster maintains or that existed before the
// case.
func (r *remote) visible(resource string, o *unstructured.Unstructured) bool {
	switch {
	case resource == "namespaces" && slices.Contains(usual, o.GetName()):
		return true
	case resource == "configmaps" && o.GetName() == "kube-root-ca.crt":
		return false
	case resource == "serviceaccounts" && o.GetName() == "default":
		return false
	}
	return r.older[o.GetUID()] == nil
}

// content returns an object in the form in which it is sent to the server, and
// its resource.
func (r *remote) content(obj runtime.Object) (*unstructured.Unstructured, apisim.Resource, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			return nil, apisim.Resource{}, err
		}
		gvk = kinds[0]
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, apisim.Resource{}, err
	}
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(gvk)
	for _, res := range r.resources {
		if res.Group == gvk.Group && res.Kind == gvk.Kind {
			res.Version = gvk.Version // the object is sent in its own version
			return o.DeepCopy(), res, nil
		}
	}
	return nil, apisim.Resource{}, fmt.Errorf("the server has no kind %v: install its CRD first", gvk)
}

func (r *remote) client(res apisim.Resource, namespace string) dynamic.ResourceInterface {
	if res.Namespaced {
		return r.dynamic.Resource(res.GVR()).Namespace(namespace)
	}
	return r.dynamic.Resource(res.GVR())
}

// Load creates an object, including its status. If its namespace does not
// exist, Load creates the namespace first. If the object needs the default
// ServiceAccount of a new namespace, Load waits for it.
func (r *remote) Load(obj runtime.Object) error {
	ctx, cancel := context.WithTimeout(context.Background(), accountWithin)
	defer cancel()
	o, res, err := r.content(obj)
	if err == nil && res.Namespaced {
		err = r.namespace(ctx, o.GetNamespace())
	}
	if err == nil {
		err = r.create(ctx, res, o)
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", backend.Title(obj), err)
	}
	return nil
}

func (r *remote) namespace(ctx context.Context, name string) error {
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
	_, err := r.dynamic.Resource(backend.Namespaces).Create(ctx, ns, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (r *remote) create(ctx context.Context, res apisim.Resource, o *unstructured.Unstructured) error {
	given := o.DeepCopy()
	for _, field := range []string{
		"resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "selfLink", "deletionTimestamp",
		"deletionGracePeriodSeconds",
	} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		if uid, known := r.uids[owners[i].UID]; known {
			owners[i].UID = uid
		}
	}
	if len(owners) > 0 {
		o.SetOwnerReferences(owners)
	}
	client := r.client(res, o.GetNamespace())
	created, err := client.Create(ctx, o, metav1.CreateOptions{})
	for apierrors.IsForbidden(err) && strings.Contains(err.Error(), "serviceaccount") && wait(ctx, time.Second) {
		created, err = client.Create(ctx, o, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	r.uids[given.GetUID()] = created.GetUID()
	if status, ok := given.Object["status"].(map[string]any); ok && len(status) > 0 && res.Status {
		created.Object["status"] = status
		if _, err = client.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the status: %w", err)
		}
	}
	if given.GetDeletionTimestamp() != nil {
		return client.Delete(ctx, created.GetName(), metav1.DeleteOptions{})
	}
	return nil
}

// wait blocks for d. It returns false if the context ends earlier.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refuse returns an error if an object of the case already exists on the
// server. The namespaces that every cluster has may exist.
func (r *remote) refuse(ctx context.Context, c *reconciletest.Case) error {
	for i, obj := range c.Objects {
		o, res, err := r.content(obj)
		if err != nil {
			return fmt.Errorf("reading Case.Objects[%d], %s: %w", i, backend.Title(obj), err)
		}
		if res.Resource == "namespaces" && slices.Contains(usual, o.GetName()) {
			continue
		}
		_, err = r.client(res, o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
		switch {
		case err == nil:
			return fmt.Errorf("%s, which is Case.Objects[%d], already exists: delete it if an earlier test has left it behind, "+
				"or use a cluster that is only for tests", backend.Title(obj), i)
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("looking for %s: %w", backend.Title(obj), err)
		}
	}
	return nil
}

// begin records the state of the cluster before a trial.
func (r *remote) begin(p *past) {
	r.uids = map[types.UID]types.UID{}
	r.older = maps.Clone(p.byUID)
}

// restore restores the content of older objects that were written to.
func (r *remote) restore(ctx context.Context, writes []*write) error {
	done := map[types.UID]bool{}
	for _, w := range writes {
		original := r.older[w.uid]
		if original == nil || done[w.uid] {
			continue
		}
		done[w.uid] = true
		for _, res := range r.resources {
			if res.GVR().GroupResource() != w.call.Resource.GroupResource() {
				continue
			}
			if err := r.put(ctx, res, original); err != nil {
				return err
			}
		}
	}
	return nil
}

// put restores the content that an object had before the trial.
func (r *remote) put(ctx context.Context, res apisim.Resource, original *unstructured.Unstructured) error {
	client := r.client(res, original.GetNamespace())
	current, err := client.Get(ctx, original.GetName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("restoring %s %s, which existed before the trial: %w", res.Resource, state.KeyOf(original), err)
	}
	o := original.DeepCopy()
	o.SetResourceVersion(current.GetResourceVersion())
	o.SetManagedFields(nil)
	if _, err = client.Update(ctx, o, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("restoring %s %s, which existed before the trial: %w", res.Resource, state.KeyOf(original), err)
	}
	return nil
}

// remove deletes an object of the trial, and removes its finalizers.
func (r *remote) remove(ctx context.Context, w *write) error {
	client := r.clientOf(w)
	policy := metav1.DeletePropagationBackground
	err := client.Delete(ctx, w.call.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &w.uid}, GracePeriodSeconds: new(int64),
	})
	if err == nil {
		_, err = client.Patch(ctx, w.call.Name, types.MergePatchType,
			[]byte(`{"metadata":{"uid":"`+string(w.uid)+`","finalizers":null}}`), metav1.PatchOptions{})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return nil // the object is deleted, or was deleted and recreated
	}
	return err
}

// isDeleted reports whether an object of the trial no longer exists.
func (r *remote) isDeleted(ctx context.Context, w *write) bool {
	o, err := r.clientOf(w).Get(ctx, w.call.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && o.GetUID() != w.uid
}

func (r *remote) clientOf(w *write) dynamic.ResourceInterface {
	if w.call.Namespace != "" {
		return r.dynamic.Resource(w.call.Resource).Namespace(w.call.Namespace)
	}
	return r.dynamic.Resource(w.call.Resource)
}
