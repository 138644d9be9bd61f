package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// running contains the running containers of a trial. Its methods are the steps
// of the trial's exercise. After a step has failed, all further steps do
// nothing.
type running struct {
	*stage
	namespace  string
	containers []*container
	err        error
}

// step calls do and stores its error, unless an earlier step has failed.
func (r *running) step(do func() error) {
	if r.err == nil {
		r.err = do()
	}
}

// await is a step that calls try until it succeeds.
func (r *running) await(ctx context.Context, try func() error) {
	r.step(func() error { return eventually(ctx, try) })
}

// apply applies manifests, as a user of kubectl would.
func (r *running) apply(ctx context.Context, manifests ...string) {
	r.step(func() error { return r.Apply(ctx, manifests...) })
}

func (r *running) start(ctx context.Context) error {
	for _, c := range r.containers {
		if err := c.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) stop() error {
	var errs []error
	for _, c := range r.containers {
		errs = append(errs, c.stop())
	}
	return errors.Join(errs...)
}

func (r *running) kill() {
	for _, c := range r.containers {
		c.kill()
	}
}

func (r *running) logs() string {
	var text strings.Builder
	for _, c := range r.containers {
		lines := strings.Split(strings.TrimSpace(c.log.String()), "\n")
		fmt.Fprintf(&text, "%s:\n%s\n", c.command[0], strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
	return text.String()
}

// whileStopped calls do while the programs are stopped.
func (r *running) whileStopped(ctx context.Context, do func()) {
	r.step(r.stop)
	do()
	r.step(func() error { return r.start(ctx) })
}

// pages requests the pages that monitoring and people read, and checks that the
// page for people needs a token.
func (r *running) pages(t trial) error {
	for _, c := range r.containers {
		if err := c.get("/metrics", "", http.StatusOK); err != nil {
			return err
		}
		if t.withoutPage {
			continue
		}
		err := errors.Join(c.get("/debug/homeostat", "", http.StatusUnauthorized),
			c.get("/debug/homeostat", r.reader, http.StatusOK))
		if err != nil {
			return err
		}
	}
	return nil
}

// client returns a client for a resource, such as configmaps or
// websites.web.homeostat.dev/v1.
func (r *running) client(resource, namespace string) dynamic.ResourceInterface {
	resource, version, ok := strings.Cut(resource, "/")
	if !ok {
		version = "v1"
	}
	resource, group, _ := strings.Cut(resource, ".")
	client := r.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
	if namespace == "" {
		return client
	}
	return client.Namespace(namespace)
}

// awaitPermission waits until the server grants the account of an example a
// permission in a namespace.
func (r *running) awaitPermission(
	ctx context.Context, example, namespace string, access authorizationv1.ResourceAttributes,
) {
	access.Namespace = namespace
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + example + ":" + example, ResourceAttributes: &access,
	}}
	r.await(ctx, func() error {
		answer, err := r.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = fmt.Errorf("%s is not allowed to %s %s %s/%s", example, access.Verb, access.Resource, namespace, access.Name)
		}
		return err
	})
}

// awaitText waits until the JSON of an object contains text.
func (r *running) awaitText(ctx context.Context, resource, namespace, name, text string) {
	r.await(ctx, func() error {
		o, err := r.client(resource, namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		content, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if !strings.Contains(string(content), text) {
			return fmt.Errorf("%s %s/%s lacks %s: %s", resource, namespace, name, text, content)
		}
		return nil
	})
}

// awaitDeleted waits until the server no longer has an object.
func (r *running) awaitDeleted(ctx context.Context, resource, namespace, name string) {
	r.await(ctx, func() error {
		_, err := r.client(resource, namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("%s %s/%s still exists", resource, namespace, name)
		}
		return notFound(err)
	})
}

// change merges the JSON in change into an object or its subresource, as the
// administrator.
func (r *running) change(ctx context.Context, resource, namespace, name, change string, subresource ...string) {
	r.step(func() error {
		_, err := r.client(resource, namespace).Patch(ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{},
			subresource...)
		return err
	})
}

// remove deletes an object in the namespace default, as the administrator.
func (r *running) remove(ctx context.Context, resource, name string) {
	r.step(func() error {
		return r.client(resource, metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// uid returns the UID of an object that exists.
func (r *running) uid(ctx context.Context, resource, namespace, name string) (uid types.UID) {
	r.step(func() error {
		o, err := r.client(resource, namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			uid = o.GetUID()
		}
		return err
	})
	return uid
}

// logged waits for a text in the log of the first container.
func (r *running) logged(ctx context.Context, text string) {
	r.await(ctx, func() error {
		if !strings.Contains(r.containers[0].log.String(), text) {
			return fmt.Errorf("the log does not contain %q", text)
		}
		return nil
	})
}

// warned waits for an Event with this reason.
func (r *running) warned(ctx context.Context, namespace, reason string) {
	r.await(ctx, func() error {
		events, err := r.client("events.events.k8s.io", namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if got, _, _ := unstructured.NestedString(e.Object, "reason"); got == reason {
				return nil
			}
		}
		return fmt.Errorf("namespace %s has no Event with the reason %s", namespace, reason)
	})
}
