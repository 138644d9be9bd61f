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

// Name is the name of the controller and of its ledgers. It is also the value
// of the label that marks the ledgers.
const Name = "pod-runtime"

// DefaultPeriod is the default of Options.Period.
const DefaultPeriod = time.Minute

// Options configure the controller. Nil and zero fields mean the defaults.
type Options struct {
	// Period is the interval at which the ledger of a namespace with running
	// Pods is updated. It must be at least a second. The controller assumes
	// that it was not running if a ledger is older than two periods. Defaults
	// to [DefaultPeriod].
	Period time.Duration
	// Events receives warnings. Defaults to no recorder.
	Events events.EventRecorder
	// Leader elects one of several replicas. The controller reconciles only
	// while this replica leads. Defaults to nil: the controller always works.
	Leader reconcile.Leader
}

// New returns the controller for all namespaces, and the metrics of its
// ledgers. It does not start the controller.
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
		// A rollout of a hundred Pods causes only a few writes.
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
