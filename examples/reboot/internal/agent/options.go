package agent

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/queue"
)

// Defaults of Options.
const (
	DefaultCallTimeout = 30 * time.Second
	DefaultDrainPeriod = 5 * time.Second
	DefaultAskPeriod   = time.Minute
)

// Options configure an Agent. Node and Machine are required. Other nil and zero
// fields mean the defaults.
type Options struct {
	// Node is the name of the agent's node.
	Node string
	// Machine is the machine of the node.
	Machine machine.Machine
	// Events receives the agent's Events. Defaults to no recorder.
	Events events.EventRecorder
	// Start identifies this run of the agent. Each run needs a name of its own.
	// Defaults to a random string.
	Start string
	// Now is the wall clock of the node. It is used in annotations, and
	// compared with the controller's clock. Defaults to time.Now.
	Now func() time.Time
	// CallTimeout limits each call of the machine, and each pass of a drain.
	// Defaults to [DefaultCallTimeout].
	CallTimeout time.Duration
	// DrainPeriod is the time between two passes over the Pods of a node that
	// is being drained. Defaults to [DefaultDrainPeriod].
	DrainPeriod time.Duration
	// Sentinel returns the request of a file on the host that requires a
	// reboot, or the empty string, as [machine.Sentinel.Request] does. Defaults
	// to nil: no file is watched.
	Sentinel func() (string, error)
	// AskPeriod is the interval at which the agent calls Sentinel. Defaults to
	// [DefaultAskPeriod].
	AskPeriod time.Duration
	// Backoff is the back-off after failed reconciles, for example if the node
	// cannot be written. After a refused reboot, the agent waits for a fixed
	// time instead. Defaults to the back-off of package queue.
	Backoff queue.Backoff
}

func (o *Options) withDefaults() Options {
	var set Options
	if o != nil {
		set = *o
	}
	set.CallTimeout = cmp.Or(set.CallTimeout, DefaultCallTimeout)
	set.DrainPeriod = cmp.Or(set.DrainPeriod, DefaultDrainPeriod)
	set.AskPeriod = cmp.Or(set.AskPeriod, DefaultAskPeriod)
	if set.Start == "" {
		set.Start = rand.Text()
	}
	if set.Now == nil {
		set.Now = time.Now
	}
	if set.Events == nil {
		set.Events = discard{}
	}
	return set
}

func (o *Options) validate() error {
	var errs []error
	if o.Node == "" {
		errs = append(errs, errors.New("agent.Options.Node is empty: give the name of the node, "+
			"such as spec.nodeName from the Downward API"))
	}
	if o.Machine == nil {
		errs = append(errs, errors.New("agent.Options.Machine is nil"))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"CallTimeout", o.CallTimeout},
		{"DrainPeriod", o.DrainPeriod},
		{"AskPeriod", o.AskPeriod},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: must not be negative", "agent.Options."+d.field, d.value))
		}
	}
	return errors.Join(errs...)
}
