package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/observe/internal/resource"
)

// poll is the interval at which --wait checks whether the server has the
// resource.
const poll = time.Second

// find returns the resource after checking that the program may list it. With
// --wait it waits until the server has the resource.
func (s *settings) find(ctx context.Context, config *rest.Config, namespace string) (resource.Resource, error) {
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return resource.Resource{}, fmt.Errorf("making a client: %w", err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return resource.Resource{}, fmt.Errorf("making a client: %w", err)
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for waiting := false; ; waiting = true {
		found, err := s.listable(ctx, server, objects, namespace)
		if err == nil {
			logr.FromContextOrDiscard(ctx).V(1).Info("observing", "resource", found.String())
			return found, nil
		}
		if !s.wait || !isMissing(err) {
			return found, s.explain(err)
		}
		if !waiting {
			logr.FromContextOrDiscard(ctx).Info("the server does not have the resource yet, waiting for it",
				"resource", s.resource)
		}
		select {
		case <-ctx.Done():
			return resource.Resource{}, ctx.Err()
		case <-ticker.C:
		}
	}
}

// listable finds the resource and lists one object, so that a forbidden list
// fails now instead of being retried forever.
func (s *settings) listable(
	ctx context.Context, server discovery.DiscoveryInterface, objects metadata.Interface, namespace string,
) (resource.Resource, error) {
	found, err := resource.Find(server, s.resource)
	if err != nil {
		return found, err
	}
	if !found.Namespaced {
		namespace = ""
	}
	_, err = objects.Resource(found.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: s.selector, FieldSelector: s.fieldSelector, Limit: 1,
	})
	if err != nil {
		return found, fmt.Errorf("listing %s: %w", found.GroupResource(), err)
	}
	return found, nil
}

// isMissing reports whether err may resolve itself while the program waits. For
// example, a user may create the missing CustomResourceDefinition, or the
// server of a group may answer again.
func isMissing(err error) bool {
	_, unknown := errors.AsType[*resource.UnknownError](err)
	_, silent := errors.AsType[*resource.SilentError](err)
	return unknown || silent || apierrors.IsNotFound(err) //nolint:forbidigo // it only waits
}

// explain adds a remedy to err if it knows one, such as the verbs to grant.
func (s *settings) explain(err error) error {
	unknown, ok := errors.AsType[*resource.UnknownError](err)
	_, unreachable := errors.AsType[*url.Error](err)
	switch {
	case ok && (len(unknown.Similar) == 0 || strings.Contains(unknown.Name, ".")):
		return fmt.Errorf("%w; if its CustomResourceDefinition will be created later, use --wait", err)
	case unreachable:
		return fmt.Errorf("%w; check that the server runs, and that the kubeconfig names it", err)
	case apierrors.IsForbidden(err) && s.allNamespaces:
		return fmt.Errorf("%w; grant the verbs list and watch, or choose a namespace with -n", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; grant the verbs list and watch", err)
	}
	return err
}
