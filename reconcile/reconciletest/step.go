package reconciletest

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Step is one thing that somebody else does. It goes to the server at once and never fails by chance.
type Step struct {
	Name string
	Do   func(ctx context.Context, w *World) error
}

// Create makes an object.
func Create(obj runtime.Object) Step {
	return Step{Name: "create " + title(obj), Do: func(_ context.Context, w *World) error {
		return w.load(obj)
	}}
}

// title is the object's kind, namespace and name.
func title(obj runtime.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", obj), "*")
		kind = kind[strings.LastIndex(kind, ".")+1:]
	}
	m, ok := obj.(metav1.Object)
	switch {
	case !ok:
		return kind
	case m.GetNamespace() == "":
		return kind + " " + m.GetName()
	}
	return kind + " " + m.GetNamespace() + "/" + m.GetName()
}

// Patch merges JSON into an object: Patch("deployments.apps", "namespace/name", `{"spec":{"replicas":3}}`).
func Patch(resource, key, json string) Step {
	return patchStep("patch "+resource+" "+key+" "+json, resource, key, json, "")
}

// PatchStatus merges JSON into an object through its status subresource.
func PatchStatus(resource, key, json string) Step {
	return patchStep("patch status of "+resource+" "+key+" "+json, resource, key, json, "status")
}

func patchStep(name, resource, key, json, subresource string) Step {
	return Step{Name: name, Do: func(ctx context.Context, w *World) error {
		client, object, err := w.resource(resource, key)
		if err != nil {
			return err
		}
		var sub []string
		if subresource != "" {
			sub = append(sub, subresource)
		}
		_, err = client.Patch(ctx, object, types.MergePatchType, []byte(json), metav1.PatchOptions{}, sub...)
		return err
	}}
}

// Delete deletes an object, its dependents in the background.
func Delete(resource, key string) Step {
	return Step{Name: "delete " + resource + " " + key, Do: func(ctx context.Context, w *World) error {
		client, object, err := w.resource(resource, key)
		if err != nil {
			return err
		}
		policy := metav1.DeletePropagationBackground
		return client.Delete(ctx, object, metav1.DeleteOptions{PropagationPolicy: &policy})
	}}
}
