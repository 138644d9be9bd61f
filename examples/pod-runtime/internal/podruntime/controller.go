package podruntime

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// Name of the controller, of its ledgers, and its mark on them.
const Name = "pod-runtime"

// DefaultPeriod is how often the ledger of a namespace with running Pods is
// brought up to date.
const DefaultPeriod = time.Minute

// Options of the controller. Nil and zero fields mean the defaults.
type Options struct {
	// Period is how often the ledger of a namespace with running Pods is brought up
	// to date. If it is more than twice as old, the controller was down. [DefaultPeriod];
	// at least a second.
	Period time.Duration
	// Events receives warnings. Defaults to none.
	Events events.EventRecorder
	// Leader lets it work only while this replica leads; it always works.
	Leader reconcile.Leader
}

// New returns the controller for all namespaces, and the metrics of its ledgers.
// It starts nothing.
func New(client kubernetes.Interface, o *Options) (*reconcile.Controller, *Collector, error) {
	var options Options
	if o != nil {
		options = *o
	}
	options.Period = cmp.Or(options.Period, DefaultPeriod)
	if options.Period < time.Second {
		return nil, nil, fmt.Errorf(
			"making controller %q: podruntime.Options.Period (--period) is %v: must be at least a second", Name, options.Period)
	}
	ledgers := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", Name).String(),
	})
	pods := informer.For(client.CoreV1().Pods(""), &informer.Options{DropManagedFields: true})
	r := &reconciler{client: client, pods: pods, options: options}
	controller, err := reconcile.New(Name, ledgers, r, &reconcile.Options{
		Triggers: []reconcile.Trigger{reconcile.Mapped(pods, ledgerOf)},
		// A rollout of a hundred Pods is one write, or a few.
		MinInterval: time.Second,
		Events:      options.Events,
		Leader:      options.Leader,
	})
	return controller, &Collector{ledgers: ledgers}, err
}

// ledgerOf maps a Pod that was added, changed or deleted to its ledger.
func ledgerOf(_ context.Context, old, new *corev1.Pod) ([]reconcile.Key, error) {
	if new == nil {
		new = old
	}
	return []reconcile.Key{{Namespace: new.Namespace, Name: Name}}, nil
}
