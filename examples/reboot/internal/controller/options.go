package controller

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
)

// Defaults of Options.
const (
	DefaultStuckAfter    = 15 * time.Minute
	DefaultEventInterval = 10 * time.Minute
	DefaultName          = "reboot-controller"
)

// Options of a Controller. Nil and zero fields mean the defaults.
type Options struct {
	// Name is the field manager, and stands in logs; [DefaultName].
	Name string
	// Events receives what happens; nobody does by default.
	Events events.EventRecorder
	// StuckAfter is how long a slot may be held before its group's condition
	// Stuck is True; [DefaultStuckAfter].
	StuckAfter time.Duration
	// EventInterval is the least time between two MaxUnavailableReached events of
	// one group; [DefaultEventInterval].
	EventInterval time.Duration
	// Workers is how many groups are looked at at once; the SDK's default.
	Workers int
	// Backoff of failed turns; the SDK's default.
	Backoff queue.Backoff
	// Leader lets it work only while this replica leads; it always works.
	Leader reconcile.Leader
}

func (o *Options) withDefaults() Options {
	var set Options
	if o != nil {
		set = *o
	}
	set.Name = cmp.Or(set.Name, DefaultName)
	set.StuckAfter = cmp.Or(set.StuckAfter, DefaultStuckAfter)
	set.EventInterval = cmp.Or(set.EventInterval, DefaultEventInterval)
	if set.Events == nil {
		set.Events = discard{}
	}
	return set
}

func (o Options) validate() error {
	var faults []error
	if o.StuckAfter < 0 {
		faults = append(faults, fmt.Errorf("Options.StuckAfter is %v: must not be negative", o.StuckAfter))
	}
	if o.EventInterval < 0 {
		faults = append(faults, fmt.Errorf("Options.EventInterval is %v: must not be negative", o.EventInterval))
	}
	return errors.Join(faults...)
}
