package controller

import (
	"cmp"
	"context"
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
	DefaultGatePeriod    = time.Minute
	DefaultName          = "reboot-controller"
)

// A Gate says why no reboot may begin, or "". It must be safe for concurrent use.
type Gate interface {
	Blocked(ctx context.Context) string
}

// Options of a Controller. Nil and zero fields mean the defaults.
type Options struct {
	// Name is the field manager, and stands in logs. Defaults to [DefaultName].
	Name string
	// Events receives the controller's Events. Defaults to none.
	Events events.EventRecorder
	// StuckAfter is how long a slot may be held before its group's condition
	// Stuck is True. Defaults to [DefaultStuckAfter].
	StuckAfter time.Duration
	// EventInterval is the least time between two MaxUnavailableReached events of
	// one group. Defaults to [DefaultEventInterval].
	EventInterval time.Duration
	// Gate, if not nil, may forbid further reservations for a while.
	Gate Gate
	// GatePeriod is how long to wait before a gate that is closed is asked again.
	// Defaults to [DefaultGatePeriod].
	GatePeriod time.Duration
	// Workers is how many groups are reconciled at once. Defaults to the SDK's.
	Workers int
	// Backoff of failed reconciles. Defaults to the SDK's.
	Backoff queue.Backoff
	// Now is the wall clock of the controller, by which windows and deadlines
	// are decided. Defaults to time.Now.
	Now func() time.Time
	// Leader lets it work only while this replica leads. Defaults to always.
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
	set.GatePeriod = cmp.Or(set.GatePeriod, DefaultGatePeriod)
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
	if o.StuckAfter < 0 {
		errs = append(errs, fmt.Errorf("controller.Options.StuckAfter is %v: must not be negative", o.StuckAfter))
	}
	if o.EventInterval < 0 {
		errs = append(errs, fmt.Errorf("controller.Options.EventInterval is %v: must not be negative", o.EventInterval))
	}
	if o.GatePeriod < 0 {
		errs = append(errs, fmt.Errorf("controller.Options.GatePeriod is %v: must not be negative", o.GatePeriod))
	}
	return errors.Join(errs...)
}
