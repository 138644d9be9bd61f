package settings

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// DefaultConfigMap is the default name of the ConfigMaps.
const DefaultConfigMap = "settings"

// Options configure the controller. Nil and zero fields mean the defaults.
type Options struct {
	// ConfigMap is the name of the ConfigMap in each namespace. Defaults to
	// [DefaultConfigMap].
	ConfigMap string
	// Events receives warnings. Defaults to no recorder.
	Events events.EventRecorder
	// Leader elects one of several replicas. The controller reconciles only
	// while this replica leads. Defaults to nil: the controller always works.
	Leader reconcile.Leader
}

// New returns the controller for all namespaces. The caller must run the
// controller.
//
// The controller's primary objects are the ConfigMaps, not the Settings. Each
// reconcile is about one ConfigMap, and only one reconcile per ConfigMap runs
// at a time, even if many Settings change.
func New(
	client kubernetes.Interface, settings func(namespace string) api.Settings, o *Options,
) (*reconcile.Controller, error) {
	var options Options
	if o != nil {
		options = *o
	}
	name := cmp.Or(options.ConfigMap, DefaultConfigMap)
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return nil, fmt.Errorf("making controller %q: settings.Options.ConfigMap is %q: %s",
			Name, name, strings.Join(problems, "; "))
	}
	outputs := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
	})
	inputs := informer.For(settings(""), nil)
	return reconcile.New(Name, outputs, &reconciler{client: client, settings: settings, inputs: inputs},
		&reconcile.Options{Events: options.Events, Leader: options.Leader, Triggers: []reconcile.Trigger{
			reconcile.Mapped(inputs, func(_ context.Context, old, new *api.Setting) ([]reconcile.Key, error) {
				if new == nil {
					new = old
				}
				return []reconcile.Key{{Namespace: new.Namespace, Name: name}}, nil
			}),
		}})
}
