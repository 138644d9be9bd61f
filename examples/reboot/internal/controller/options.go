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

// A Gate can forbid the controller to reserve slots for reboots. Blocked
// returns the reason, or the empty string if slots may be reserved. Slots that
// are already reserved are not affected. A Gate must be safe for concurrent
// use.
type Gate interface {
	Blocked(ctx context.Context) string
}

// Options configure a Controller. Nil and zero fields mean the defaults.
type Options struct {
	// Name is the name of the controller in logs, and the field manager of its
	// writes. Defaults to [DefaultName].
	Name string
	// Events receives the controller's Events. Defaults to no recorder.
	Events events.EventRecorder
	// StuckAfter is how long a slot may be held before its group's condition
	// Stuck is True. With the drain policy wait, the condition is True earlier
	// if the drain takes longer than its timeout. Defaults to
	// [DefaultStuckAfter].
	StuckAfter time.Duration
	// EventInterval is the shortest interval between two MaxUnavailableReached
	// Events of one group. Defaults to [DefaultEventInterval].
	EventInterval time.Duration
	// Gate can forbid new reservations for a while. Defaults to nil: they are
	// always allowed.
	Gate Gate
	// GatePeriod is the time after which a closed gate is asked again. It is
	// asked earlier if the group is reconciled for another reason, such as a
	// change of a node. Defaults to [DefaultGatePeriod].
	GatePeriod time.Duration
	// Workers is the number of groups that are reconciled at the same time.
	// Defaults to the default of package reconcile.
	Workers int
	// Backoff is the back-off after failed reconciles. Defaults to the back-off
	// of package queue.
	Backoff queue.Backoff
	// Now is the wall clock of the controller. It decides windows and
	// deadlines. Defaults to time.Now.
	Now func() time.Time
	// Leader elects one of several replicas. The controller reconciles only
	// while this replica leads. Defaults to nil: the controller always works.
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
