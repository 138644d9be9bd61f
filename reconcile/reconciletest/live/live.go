// Package live plays the cases of package reconciletest on a real API server,
// and kills the program after each write.
package live

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	engine "github.com/homeostat/homeostat/reconcile/reconciletest/internal/smoke"
)

const (
	defaultRest    = 3 * time.Second
	defaultTimeout = 2 * time.Minute
	defaultKills   = 20
)

// Options of [Smoke]. nil and zero fields mean the defaults. All times are real.
type Options struct {
	// Rest is how long no client may write before the program counts as at
	// rest. It must be longer than the longest back-off of the program after
	// one failure. Defaults to 3 seconds.
	Rest time.Duration
	// Timeout bounds the time until the program is at rest, or has stopped, and
	// the time to clean up. It must be longer than Rest. Defaults to 2 minutes.
	Timeout time.Duration
	// Kills is the maximum number of kills; later writes are undisturbed.
	// Defaults to 20.
	Kills int
	// Program is the program's configuration for the server, such as that of
	// its ServiceAccount, which reveals rights that its Role lacks. Defaults to
	// the administrator's.
	Program *rest.Config
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	v.Rest = cmp.Or(v.Rest, defaultRest)
	v.Timeout = cmp.Or(v.Timeout, defaultTimeout)
	v.Kills = cmp.Or(v.Kills, defaultKills)
	return v
}

func (o *Options) validate() error {
	check := option.Of("live.Options")
	check.That(o.Rest >= 0, "Rest", o.Rest, option.Negative)
	check.That(o.Timeout > o.Rest, "Timeout", o.Timeout, "must be longer than Rest, %v", o.Rest)
	check.That(o.Kills >= 0, "Kills", o.Kills, option.Negative)
	return check.Err()
}

// Smoke runs the case of [reconciletest.Explore] on a real server, for which
// config is an administrator's: kind, envtest, any cluster for tests. It
// explores nothing; it plays the case twice, in real time.
//
//   - Undisturbed; at the end the program is stopped and started again.
//   - Then the program is killed after each of its writes, before it sees the
//     answer, and started again; and each step of the workload happens while it
//     is down. A kill ends its network at once, and then its context.
//
// Both times the program must come to rest after each step; Goal holds at the
// end, Always after each write; a restart at the end writes nothing; Run
// returns when its context has ended, and not before; caches registered with
// [reconciletest.Env.Cache] match the server, and no object of an informer was
// modified. At each rest the state is that of the undisturbed run, except for
// the fields that Explore leaves out, and those that differ between two
// undisturbed runs: a third is made if the second one ends in a different
// state.
//
// Always is checked when the program has come to rest, for each visible write,
// in the order of their resourceVersions: [reconciletest.World.Objects] and
// [reconciletest.List] show the objects after each. Both leave out the objects
// that the cluster had before, except the namespaces that every cluster has,
// and the objects that it gives each namespace: kube-root-ca.crt and the
// default ServiceAccount.
//
// Case.Actors do not act: the cluster has its own controllers; where it has
// none, as in envtest, nothing collects garbage or ends namespaces.
// Identifiers, creation times, generations, defaults and validation are the
// server's. The CRDs of Case.Resources must be installed. There are no other
// faults, no stale caches and no partitions: those are for Explore.
//
// It refuses to start if an object of the case already exists. At the end it
// deletes the objects that the case and the program made, and namespaces with
// everything in them; the content of a changed older object is restored. Two
// calls must not use one cluster at the same time.
//
// Returns a report with the failure of the test, if any; Planned, Pairs,
// Deliveries and Token stay zero. It ends the test at once, by Fatal, if the
// case cannot be played: wrong options, no connection, a server that cannot be
// cleaned up. Any testing.TB will do, including Ginkgo's GinkgoTB.
func Smoke(t testing.TB, c *reconciletest.Case, config *rest.Config, o *Options) *reconciletest.Report {
	t.Helper()
	r, err := smoke(t.Context(), c, config, o)
	if err != nil {
		t.Fatalf("running the case on a real server: %v", err)
	}
	if r.Failure != "" {
		t.Error(r.Failure)
		return r
	}
	t.Logf("%d runs, %d kills; undisturbed: %d calls, %d writes", r.Runs, r.Kills, r.Calls, r.Writes)
	return r
}

// smoke returns an error if there is nothing to judge.
func smoke(ctx context.Context, c *reconciletest.Case, config *rest.Config, o *Options) (*reconciletest.Report, error) {
	opts := o.withDefaults()
	if err := errors.Join(opts.validate(), c.Validate()); err != nil {
		return nil, err
	}
	return engine.Play(ctx, c, config, engine.Options(opts))
}
