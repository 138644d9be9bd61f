package names

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// What the zero [Options] mean.
const (
	DefaultPeriod     = 10 * time.Minute
	DefaultTimeout    = time.Minute
	DefaultMaxShare   = 0.5
	DefaultMaxCount   = 10
	DefaultFirstRetry = time.Second
	DefaultMaxRetry   = 5 * time.Minute
)

// Options of a [Sweep]. Nil and zero fields mean the defaults.
type Options struct {
	// Namespaces are those whose names are ours to clean; all. Names elsewhere
	// are counted and left alone.
	Namespaces []string
	// Scope says whether a name is ours to clean; all are. It is the place for a
	// prefix, a zone, a shard. What a selector or a marker says about objects
	// belongs into the marker of [Objects].
	Scope func(Name) bool

	// Period is the time from one sweep to the next; [DefaultPeriod], plus up to
	// a tenth so that replicas do not sweep in step.
	Period time.Duration
	// Timeout bounds the listing of names, and the wait for the cache;
	// [DefaultTimeout].
	Timeout time.Duration
	// FirstRetry and MaxRetry bound the pauses after failed sweeps: they double,
	// with jitter; [DefaultFirstRetry], [DefaultMaxRetry].
	FirstRetry, MaxRetry time.Duration

	// MaxShare and MaxCount are the brake: a sweep is refused if more than this
	// share of the names in scope and more than this number of them are
	// orphans; [DefaultMaxShare], [DefaultMaxCount]. A share of 1 switches the
	// brake off.
	MaxShare float64
	MaxCount int
	// Confirmed lets the first sweep hand on up to so many orphans past the
	// brake, as [Sweep.Confirm] does for the next one; none.
	Confirmed int
	// Refused is called after a sweep that the brake has refused, for example to
	// post an Event. It may set the error's Advice. It must not block for long.
	Refused func(*RefusedError)
}

func (o *Options) withDefaults() Options {
	var set Options
	if o != nil {
		set = *o
	}
	set.Period = cmp.Or(set.Period, DefaultPeriod)
	set.Timeout = cmp.Or(set.Timeout, DefaultTimeout)
	set.FirstRetry = cmp.Or(set.FirstRetry, DefaultFirstRetry)
	set.MaxRetry = cmp.Or(set.MaxRetry, max(DefaultMaxRetry, set.FirstRetry))
	set.MaxShare = cmp.Or(set.MaxShare, DefaultMaxShare)
	set.MaxCount = cmp.Or(set.MaxCount, DefaultMaxCount)
	return set
}

func (o Options) validate() error {
	var faults []error
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Period", o.Period}, {"Timeout", o.Timeout}, {"FirstRetry", o.FirstRetry}, {"MaxRetry", o.MaxRetry}} {
		if d.value <= 0 {
			faults = append(faults, fmt.Errorf("%s is %v: must be more than 0", "Options."+d.field, d.value))
		}
	}
	if o.MaxRetry < o.FirstRetry {
		faults = append(faults, fmt.Errorf("Options.MaxRetry is %v: must not be less than FirstRetry (%v)",
			o.MaxRetry, o.FirstRetry))
	}
	if !(o.MaxShare > 0 && o.MaxShare <= 1) { // not a number is neither
		faults = append(faults, fmt.Errorf("Options.MaxShare is %v: must be more than 0 and at most 1", o.MaxShare))
	}
	if o.MaxCount < 0 {
		faults = append(faults, fmt.Errorf("Options.MaxCount is %d: must not be negative", o.MaxCount))
	}
	if o.Confirmed < 0 {
		faults = append(faults, fmt.Errorf("Options.Confirmed is %d: must not be negative", o.Confirmed))
	}
	return errors.Join(faults...)
}
