package leader

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

const (
	defaultLeaseDuration = 15 * time.Second
	defaultDrainTimeout  = time.Minute
)

// driftShare is the part of the lease duration that is set aside for clocks
// that do not run at the same speed: 1 % for the leader's, 1 % for the
// observer's.
const driftShare = 50

// Options of an [Elector]. Nil and zero fields mean the defaults.
type Options struct {
	// LeaseDuration is how long the other replicas wait, after the last change
	// of the Lease that they saw, before they take it. Defaults to 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader trusts a renewal, from the moment it
	// was sent. Defaults to two thirds of LeaseDuration, 10 s.
	RenewDeadline time.Duration
	// RequestTimeout bounds each request for the Lease. Defaults to a fifth of
	// LeaseDuration, 3 s.
	RequestTimeout time.Duration
	// RetryPeriod is the time between renewals, and between reads of a Lease
	// that another replica holds. Defaults to two fifteenths of LeaseDuration,
	// 2 s.
	RetryPeriod time.Duration

	// DrainTimeout is how long the function given to [Elector.Run] may go on
	// after the leadership was lost before [Elector.Healthy] reports it.
	// Defaults to 1 min.
	DrainTimeout time.Duration

	// Clock tells the time; tests set one that is wrong. Defaults to the
	// system's.
	Clock clock.Clock
}

func (o *Options) withDefaults() Options {
	var set Options
	if o != nil {
		set = *o
	}
	set.LeaseDuration = cmp.Or(set.LeaseDuration, defaultLeaseDuration)
	set.RenewDeadline = cmp.Or(set.RenewDeadline, set.LeaseDuration*2/3)
	set.RequestTimeout = cmp.Or(set.RequestTimeout, set.LeaseDuration/5)
	set.RetryPeriod = cmp.Or(set.RetryPeriod, set.LeaseDuration*2/15)
	set.DrainTimeout = cmp.Or(set.DrainTimeout, defaultDrainTimeout)
	if set.Clock == nil {
		set.Clock = clock.RealClock{}
	}
	return set
}

// room is how long after the end of a trust window the others still wait, so that what was sent in it can arrive.
func (o Options) room() time.Duration { return o.LeaseDuration - o.RenewDeadline }

func (o Options) validate() error {
	var faults []error
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"Options.LeaseDuration", o.LeaseDuration},
		{"Options.RenewDeadline", o.RenewDeadline},
		{"Options.RequestTimeout", o.RequestTimeout},
		{"Options.RetryPeriod", o.RetryPeriod},
		{"Options.DrainTimeout", o.DrainTimeout},
	} {
		if d.value <= 0 {
			faults = append(faults, fmt.Errorf("%s is %v: must be more than 0s", d.field, d.value))
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	drift := o.LeaseDuration / driftShare
	if o.RenewDeadline+o.RequestTimeout+drift >= o.LeaseDuration {
		faults = append(faults, fmt.Errorf("Options.RenewDeadline is %v: with RequestTimeout %v and %v for drift "+
			"it must stay below LeaseDuration %v: a late write could meet the next leader",
			o.RenewDeadline, o.RequestTimeout, drift, o.LeaseDuration))
	}
	if o.RetryPeriod+o.RequestTimeout >= o.RenewDeadline {
		faults = append(faults, fmt.Errorf("Options.RetryPeriod is %v: with RequestTimeout %v it must stay below "+
			"RenewDeadline %v, or one failed renewal ends the leadership",
			o.RetryPeriod, o.RequestTimeout, o.RenewDeadline))
	}
	return errors.Join(faults...)
}
