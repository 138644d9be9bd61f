package reconciletest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// World is the cluster as an administrator sees it: at once, and without faults.
type World struct {
	sim     *apisim.Server
	remote  *remote // instead of it: a real server
	outside any
}

// Outside is what Case.Outside made for this run.
func (w *World) Outside() any { return w.outside }

// Config is for clients of the administrator.
func (w *World) Config() *rest.Config {
	if w.remote != nil {
		return rest.CopyConfig(w.remote.config)
	}
	return w.sim.Admin()
}

// Client is a clientset of the administrator.
func (w *World) Client() kubernetes.Interface { return kubernetes.NewForConfigOrDie(w.Config()) }

// Objects returns the objects of a resource, "pods" or "jobs.batch", by namespace and name. They are shared: read
// only.
func (w *World) Objects(resource string) ([]*unstructured.Unstructured, error) {
	r, err := w.find(resource)
	if err != nil {
		return nil, err
	}
	if w.remote != nil {
		return w.remote.objects(r)
	}
	return w.sim.Objects(r.GVR()), nil
}

func (w *World) resources() []apisim.Resource {
	if w.remote != nil {
		return w.remote.resources
	}
	return w.sim.Resources()
}

// List returns the objects of a resource, "pods" or "jobs.batch", as values of their Go type.
func List[T any](w *World, resource string) ([]T, error) {
	objects, err := w.Objects(resource)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(objects))
	for i, o := range objects {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &all[i]); err != nil {
			return nil, fmt.Errorf("decoding %s %s/%s: %w", resource, o.GetNamespace(), o.GetName(), err)
		}
	}
	return all, nil
}

// load puts an object into the store, and first its namespace if nobody has.
func (w *World) load(obj runtime.Object) error {
	if w.remote != nil {
		return w.remote.load(obj)
	}
	m, ok := obj.(metav1.Object)
	if ok && m.GetNamespace() != "" {
		namespaces := w.sim.Objects(corev1.SchemeGroupVersion.WithResource("namespaces"))
		known := slices.ContainsFunc(namespaces,
			func(n *unstructured.Unstructured) bool { return n.GetName() == m.GetNamespace() })
		if !known {
			if err := w.sim.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.GetNamespace()}}); err != nil {
				return err
			}
		}
	}
	return w.sim.Load(obj.DeepCopyObject())
}

// label gives a namespace that is there the labels and annotations of another.
func (w *World) label(ns *corev1.Namespace) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels":      ns.Labels,
		"annotations": ns.Annotations,
	}})
	if err != nil {
		return err
	}
	_, err = w.Client().CoreV1().Namespaces().
		Patch(context.Background(), ns.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// find resolves "pods", "deployments.apps" and "events.events.k8s.io".
func (w *World) find(resource string) (apisim.Resource, error) {
	name, group, qualified := strings.Cut(resource, ".")
	var found []apisim.Resource
	for _, r := range w.resources() {
		if r.Resource == name && (!qualified || r.Group == group) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return apisim.Resource{}, fmt.Errorf("finding resource %q: the server does not have it: "+
			"add it to Case.Resources", resource)
	case 1:
		return found[0], nil
	}
	for _, r := range found {
		if r.Group == group {
			return r, nil
		}
	}
	return found[0], nil
}

// resource gives the administrator's client for a resource and the namespace in "namespace/name".
func (w *World) resource(resource, key string) (dynamic.ResourceInterface, string, error) {
	r, err := w.find(resource)
	if err != nil {
		return nil, "", err
	}
	client, err := dynamic.NewForConfig(w.Config())
	if err != nil {
		return nil, "", err
	}
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		return client.Resource(r.GVR()), namespace, nil
	}
	return client.Resource(r.GVR()).Namespace(namespace), name, nil
}

func shortName(r schema.GroupResource) string { return r.String() }
