package agent

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/queue"
)

// Defaults of Options.
const (
	DefaultPatience    = 5 * time.Minute
	DefaultCallTimeout = 30 * time.Second
)

// Options of an Agent. Node and Machine must be set; else nil and zero fields
// mean the defaults.
type Options struct {
	// Node is the name of the node that the agent runs on.
	Node string
	// Machine is what the node runs on.
	Machine machine.Machine
	// Events receives what happens; nobody does by default.
	Events events.EventRecorder
	// Patience is how long the agent waits for a reboot that was not refused
	// before it asks again; [DefaultPatience].
	Patience time.Duration
	// CallTimeout bounds each call of the machine; [DefaultCallTimeout].
	CallTimeout time.Duration
	// Backoff of failed turns, such as refused reboots; the SDK's default.
	Backoff queue.Backoff
}

func (o *Options) withDefaults() Options {
	var set Options
	if o != nil {
		set = *o
	}
	set.Patience = cmp.Or(set.Patience, DefaultPatience)
	set.CallTimeout = cmp.Or(set.CallTimeout, DefaultCallTimeout)
	if set.Events == nil {
		set.Events = discard{}
	}
	return set
}

func (o Options) validate() error {
	var faults []error
	if o.Node == "" {
		faults = append(faults, errors.New("Options.Node is empty: give the name of the node, "+
			"such as spec.nodeName from the Downward API"))
	}
	if o.Machine == nil {
		faults = append(faults, errors.New("Options.Machine is nil"))
	}
	if o.Patience < 0 {
		faults = append(faults, fmt.Errorf("Options.Patience is %v: must not be negative", o.Patience))
	}
	if o.CallTimeout < 0 {
		faults = append(faults, fmt.Errorf("Options.CallTimeout is %v: must not be negative", o.CallTimeout))
	}
	return errors.Join(faults...)
}
