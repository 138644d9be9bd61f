package reconciletest

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
)

// Step is one act of another client, such as a user. Its requests are served at
// once and without faults. [Create], [Patch] and [Delete] return the usual
// steps. A Step of your own may do several writes, or change state outside the
// cluster.
type Step struct {
	// Name describes the step in traces. Required.
	Name string
	// Do does the step. If Do returns an error in a run without faults, the
	// test fails. If it returns an error in a run with faults, it is called
	// once more when the program is at rest. Required.
	Do func(ctx context.Context, w *World) error

	single   bool             // whether the step writes one object; a failed step has then not changed it
	needless func(error) bool // reports whether an error means that the step is not needed
}

// Create returns a step that creates an object, including its status. If the
// namespace of the object does not exist, the step creates the namespace first.
// The object is copied when the step is done, and not by Create.
//
// Step.Do returns an error if the object already exists, if the server serves
// no resource of its kind, or if the server refuses the object.
func Create(obj runtime.Object) Step {
	return Step{Name: "create " + backend.Title(obj), single: true, Do: func(_ context.Context, w *World) error {
		return w.server.Load(obj)
	}}
}

// Patch returns a step that applies a JSON merge patch to an object, or to its
// status:
//
//	reconciletest.Patch("deployments.apps", "namespace/name", `{"spec":{"replicas":3}}`)
//	reconciletest.Patch("nodes/status", "name", `{"status":{"phase":"Running"}}`)
//
// The key of an object without a namespace is its name.
//
// Step.Do returns an error if the object does not exist, if the server does not
// serve the resource, or if the server refuses the patch.
func Patch(resource, key, json string) Step {
	resource, subresource, status := strings.Cut(resource, "/")
	verb, subresources := "patch ", []string(nil)
	if status {
		verb, subresources = "patch "+subresource+" of ", []string{subresource}
	}
	name := verb + resource + " " + key + " " + json
	return Step{Name: name, single: true, Do: func(ctx context.Context, w *World) error {
		client, name, err := backend.Client(w.server, resource, key)
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, name, types.MergePatchType, []byte(json), metav1.PatchOptions{}, subresources...)
		return err
	}}
}

// Delete returns a step that deletes an object. Finalizers of the object may
// delay its deletion, and its dependents are deleted in the background. The key
// has the form described for [Patch].
//
// Step.Do returns an error if the object does not exist, or if the server does
// not serve the resource.
func Delete(resource, key string) Step {
	do := func(ctx context.Context, w *World) error {
		client, name, err := backend.Client(w.server, resource, key)
		if err != nil {
			return err
		}
		policy := metav1.DeletePropagationBackground
		return client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy})
	}
	return Step{Name: "delete " + resource + " " + key, Do: do, single: true, needless: apierrors.IsNotFound}
}
