package defaults

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// Options configure the controller. Nil and zero fields mean the defaults.
type Options struct {
	// Events receives warnings. Defaults to no recorder.
	Events events.EventRecorder
	// Leader elects one of several replicas. The controller reconciles only
	// while this replica leads. Defaults to nil: the controller always works.
	Leader reconcile.Leader
}

// New returns the controller for all namespaces. The caller must run the
// controller.
func New(client kubernetes.Interface, p *Policy, o *Options) (*reconcile.Controller, error) {
	var options Options
	if o != nil {
		options = *o
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("making controller %q: %w", Name, err)
	}
	want, err := outputsOf(p)
	if err != nil {
		return nil, fmt.Errorf("making controller %q: %w", Name, err)
	}
	ownName := &informer.Options{FieldSelector: fields.OneTermEqualSelector("metadata.name", Name).String()}
	quotas := informer.For(client.CoreV1().ResourceQuotas(""), ownName)
	limits := informer.For(client.CoreV1().LimitRanges(""), ownName)
	r := &reconciler{client: client, policy: p, want: want, quotas: quotas, limits: limits, recorder: options.Events}
	return reconcile.New(Name, informer.For(client.CoreV1().Namespaces(), nil), r, &reconcile.Options{
		Triggers: []reconcile.Trigger{
			reconcile.Mapped(quotas, namespaceOf[*corev1.ResourceQuota]),
			reconcile.Mapped(limits, namespaceOf[*corev1.LimitRange]),
		},
		Events: options.Events,
		Leader: options.Leader,
	})
}

// namespaceOf maps an object that was added, changed or deleted to its
// namespace.
func namespaceOf[T interface {
	informer.Object
	comparable
}](_ context.Context, old, new T) ([]reconcile.Key, error) {
	var zero T
	if new == zero {
		new = old
	}
	return []reconcile.Key{{Name: new.GetNamespace()}}, nil
}
