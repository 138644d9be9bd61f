package names

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/option"
)

const (
	defaultPeriod      = 10 * time.Minute
	defaultTimeout     = time.Minute
	defaultMaxShare    = 0.5
	defaultMaxCount    = 10
	defaultMaxOfAll    = 3
	defaultBackoffBase = time.Second
	defaultBackoffCap  = 5 * time.Minute

	jitter = 0.1 // at most this share of a pause is added to it
)

// Options configures a [Sweep]. Nil and zero fields mean the defaults.
type Options struct {
	// Namespaces are the namespaces whose names this program cleans up. Names
	// in other namespaces, and names without a namespace, are counted and left
	// alone. Defaults to all names.
	Namespaces []string
	// Scope reports whether this program cleans up a name. For example, it may
	// compare a prefix, a zone or a shard. To filter by the content of an
	// object, use the marker function of [Objects]. Defaults to all names.
	Scope func(Name) bool

	// Period is the time from one sweep to the next. Up to a tenth is added at
	// random, so that replicas do not sweep at the same time. Defaults to 10
	// minutes.
	Period time.Duration
	// Timeout bounds the listing of names and, separately, the wait for the
	// cache. Defaults to a minute.
	Timeout time.Duration
	// BackoffBase is the pause after the first failed sweep. It doubles with
	// each further failure. Up to a tenth is added at random. Defaults to a
	// second.
	BackoffBase time.Duration
	// BackoffCap limits the doubling of the pause after a failed sweep, and so
	// does [Options].Period. Up to a tenth is added to the limit, too. Defaults
	// to 5 minutes, or BackoffBase if that is longer.
	BackoffCap time.Duration

	// MaxShare and MaxCount are the safety limit of a sweep. If a sweep finds
	// more than MaxCount orphans, and they are more than this share of the
	// names in scope, it is refused and enqueues no orphan. For example, with
	// the defaults 12 orphans among 100 names are enqueued, and 60 are refused.
	// A share of 1 switches the limit off. Defaults to 0.5.
	MaxShare float64
	// MaxCount is the largest number of orphans that a sweep enqueues however
	// large their share is. Defaults to 10. If all names are orphans, it
	// defaults to 3, because a wrong selector or an empty cache has the same
	// effect. For example, a sweep with 4 orphans is refused if there are 4
	// names, but not if there are 5.
	MaxCount int
	// Confirmed is the number of orphans that the first sweep may enqueue
	// although they exceed the safety limit. [Sweep.Confirm] allows the same
	// for the next sweep. Defaults to 0.
	Confirmed int
	// Refused is called after a sweep that the safety limit has refused, for
	// example to post an Event. It may set the error's Advice. It must not
	// block for long: the sweep waits for it.
	Refused func(*RefusedError)
}

func (o *Options) withDefaults() Options {
	set := ptr.Deref(o, Options{})
	set.Period = cmp.Or(set.Period, defaultPeriod)
	set.Timeout = cmp.Or(set.Timeout, defaultTimeout)
	set.BackoffBase = cmp.Or(set.BackoffBase, defaultBackoffBase)
	set.BackoffCap = cmp.Or(set.BackoffCap, max(defaultBackoffCap, set.BackoffBase))
	set.MaxShare = cmp.Or(set.MaxShare, defaultMaxShare)
	return set
}

func (o Options) validate() error {
	check := option.Of("names.Options")
	for n, namespace := range o.Namespaces {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			check.Wrong(fmt.Sprintf("Namespaces[%d]", n), namespace, "%s", problem)
		}
	}
	positive := func(field string, d time.Duration) { check.That(d > 0, field, d, "must be more than 0") }
	positive("Period", o.Period)
	positive("Timeout", o.Timeout)
	positive("BackoffBase", o.BackoffBase)
	positive("BackoffCap", o.BackoffCap)
	check.That(o.BackoffCap <= 0 || o.BackoffCap >= o.BackoffBase, "BackoffCap", o.BackoffCap,
		"must be at least BackoffBase, %v", o.BackoffBase)
	isShare := o.MaxShare > 0 && o.MaxShare <= 1 // NaN is neither
	check.That(isShare, "MaxShare", o.MaxShare, "must be more than 0 and at most 1")
	check.That(o.MaxCount >= 0, "MaxCount", o.MaxCount, option.Negative)
	check.That(o.Confirmed >= 0, "Confirmed", o.Confirmed, option.Negative)
	return check.Err()
}

// A RefusedError is the error of a sweep that the safety limit has stopped. A
// mistake is a likelier reason for that many orphans than deleted objects.
type RefusedError struct {
	// Orphans is how many names would have been enqueued, and Known how many
	// names are in scope.
	Orphans, Known int
	// Example is one of the orphans.
	Example Name
	// MaxCount and MaxShare are the limits; both were exceeded.
	MaxCount int
	MaxShare float64
	// Advice tells the user what to do if the orphans are to be deleted.
	// [Options].Refused may set it to name the program's own flags. By default,
	// Error names the options and the method of this package that allow the
	// sweep.
	Advice string
}

// Error states the numbers and the advice.
func (e *RefusedError) Error() string {
	advice := e.Advice
	if advice == "" {
		advice = fmt.Sprintf("if they really are deleted, let one sweep pass with Confirm(%d) or names.Options.Confirmed, "+
			"or raise names.Options.MaxCount or MaxShare", e.Orphans)
	}
	return fmt.Sprintf("safety limit: %d of %d known names are orphans (such as %s), more than %d "+
		"and more than %g %%: nothing is cleaned; %s",
		e.Orphans, e.Known, e.Example.Key, e.MaxCount, math.Round(1e4*e.MaxShare)/100, advice)
}
