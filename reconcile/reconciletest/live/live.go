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

// Options configure [Smoke]. Nil and zero fields mean the defaults. All times
// are real.
type Options struct {
	// Rest is the time without a write by any client after which the program
	// counts as at rest. It must be longer than the longest back-off of the
	// program after one failure. Defaults to 3 seconds.
	Rest time.Duration
	// Timeout limits the time from a start, a step or a kill until the program
	// is at rest, the time until the program has stopped, and the time to clean
	// up. It must be longer than Rest. Defaults to 2 minutes.
	Timeout time.Duration
	// Kills is the maximum number of kills. After that, the program is not
	// killed any more. Defaults to 20.
	Kills int
	// Program is the configuration with which the program reaches the server.
	// With the credentials of the program's ServiceAccount, Smoke finds rights
	// that its Role lacks. Defaults to the administrator's configuration.
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

// Smoke plays a case of [reconciletest.Explore] twice on a real server, in real
// time, and does not explore further. config has an administrator's credentials
// for kind, envtest, or any other cluster for tests.
//
//   - First, the program is not disturbed. At the end it is stopped and started
//     again.
//   - Then the program is killed after each of its writes, up to
//     [Options].Kills times, before it sees the answer, and started again. Each
//     step of the workload happens while it is down. A kill cuts the
//     network of the program at once, and then ends its context.
//
// Both times the program must come to rest after each step. Always must hold
// after each write, and Goal at the end. A restart at the end must not write.
// Run must return when its context has ended, and not before. Caches registered
// with [reconciletest.Env.Cache] must match the server, and no object of an
// informer may be modified.
//
// At each rest the state must be the same as in the undisturbed run, except for
// the fields that Explore ignores. If the states differ, Smoke makes a third,
// undisturbed run, and also ignores the fields in which the undisturbed runs
// differ.
//
// Always is checked when the program has come to rest, for each visible write,
// in the order of their resourceVersions. During the check,
// [reconciletest.World.Objects] and [reconciletest.List] return the objects as
// they were after that write. Both leave out the objects that the cluster had
// before, except the namespaces that every cluster has. They also leave out the
// objects that the cluster creates in each namespace: kube-root-ca.crt and the
// default ServiceAccount.
//
// Case.Actors do not act, because the cluster has its own controllers. A
// cluster without controllers, such as envtest, collects no garbage, and its
// namespaces remain terminating. Identifiers, creation times, generations,
// defaults and validation come from the real server. The CRDs of Case.Resources
// must be installed. There are no other faults, stale caches or partitions; use
// Explore for these.
//
// Smoke refuses to start if an object of the case already exists. At the end it
// deletes the objects that the case and the program have created, and
// namespaces with all their contents. It restores the content of older objects
// that were changed. Two calls must not use one cluster at the same time.
//
// Smoke returns a report with the failure of the test, if any. The fields
// Planned, Pairs, Deliveries and Token of the report are zero. Smoke ends the
// test at once, with Fatal, if the case cannot be played, for example because
// of invalid options, a missing connection, or a server that cannot be cleaned
// up. t may be any testing.TB, including Ginkgo's GinkgoTB.
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

// smoke does the work of [Smoke]. It returns an error where Smoke calls Fatal:
// if the case is invalid or could not be played. There was then nothing to
// judge.
func smoke(ctx context.Context, c *reconciletest.Case, config *rest.Config, o *Options) (*reconciletest.Report, error) {
	opts := o.withDefaults()
	if err := errors.Join(opts.validate(), c.Validate()); err != nil {
		return nil, err
	}
	return engine.Play(ctx, c, config, engine.Options(opts))
}
