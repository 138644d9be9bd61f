package reconciletest

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homeostat/homeostat/internal/option"
)

const (
	defaultBudget      = time.Minute
	defaultSingles     = 50 * time.Second // the part of defaultBudget that only single deviations and outages may use
	defaultShortBudget = 2 * time.Second
	defaultSteps       = 20_000
	defaultRest        = 2 * time.Minute
	defaultLag         = 5 * time.Second
	defaultSeeds       = 50
)

// shardVariable is the environment variable with the shard of a process, such
// as 1/4 for the first of four.
const shardVariable = "RECONCILETEST_SHARD"

// budgetVariable is the environment variable with the budget of each
// exploration.
const budgetVariable = "RECONCILETEST_BUDGET"

// Options configure an exploration. Nil and zero fields mean the defaults.
// Invalid options end the test at once; the failure lists all errors.
//
// Concurrency: an exploration copies its Options and does not modify them, so
// several explorations may share them.
type Options struct {
	// Budget is how long the exploration may take, in real time. The runs are
	// always the same, in the same order; a smaller budget only ends them
	// earlier.
	//
	// The environment variable RECONCILETEST_BUDGET, such as 5m, overrides
	// Budget. It also makes [Explore] fail unless every single deviation was
	// tried. If Budget is zero, the environment variable CI, which build
	// servers set, makes Explore fail in the same case. With go test -short,
	// neither variable does.
	//
	// Defaults to a minute, of which pairs and orders may use only the first 10
	// seconds. With go test -short, it defaults to 2 seconds.
	Budget time.Duration
	// Steps is the maximum length of a run. A longer run counts as never coming
	// to rest. A step is a call, a delivery of an event, an act of an actor, or
	// a worker that takes a key. Defaults to 20,000.
	Steps int
	// Rest is the virtual time without a write by any client after which the
	// program counts as at rest. It must be longer than any time for which the
	// program waits, such as the back-off after half a minute of failures, an
	// outside job, or a time to live. Defaults to 2 minutes.
	Rest time.Duration
	// Lag is the virtual time for which a slow watch or a slow call is held
	// back. Defaults to 5 seconds.
	Lag time.Duration
	// SkipDrift leaves out the runs in which another client deletes or edits
	// the program's objects. It is for programs that need not repair such
	// changes.
	//
	// Even without SkipDrift, an object that a step has written to is not
	// deleted, since no step would repeat the write. To include such an object,
	// let an actor write to it, as actors.Deployments writes a status.
	SkipDrift bool
	// Seeds is the number of runs in random order, each with a few random
	// deviations, after the planned runs. Defaults to 50.
	Seeds int
	// KnownFindings lists findings to tolerate, each as a substring of
	// [Report].Failure before its token, such as "caches that begin" or "500
	// instead of call". A run with such a finding counts as passed, and the
	// exploration continues. A finding that ends the run without faults early
	// is not tolerated. Defaults to none.
	KnownFindings []string
	// Shards is the number of processes among which the exploration is divided,
	// and Shard the number of this process, from 0. Each process makes the runs
	// without faults, and its share of the others, with the whole Budget.
	// Defaults to the environment variable RECONCILETEST_SHARD, in which 1/4
	// stands for the first of four processes, and otherwise to one process:
	//
	//	seq 4 | xargs -P 4 -I {} env RECONCILETEST_SHARD={}/4 GOMAXPROCS=1 go test -run TestKeySurvives .
	Shard, Shards int

	singles time.Duration // the part of the budget that is reserved for single deviations and outages
	strict  bool          // whether an incomplete exploration fails
}

// withDefaults returns a copy of o in which unset fields have their defaults. o
// may be nil.
func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	budget := defaultBudget
	if testing.Short() {
		budget = defaultShortBudget
	} else if v.Budget == 0 {
		v.singles = defaultSingles
	}
	v.Budget = cmp.Or(v.Budget, budget)
	v.Steps = cmp.Or(v.Steps, defaultSteps)
	v.Rest = cmp.Or(v.Rest, defaultRest)
	v.Lag = cmp.Or(v.Lag, defaultLag)
	v.Seeds = cmp.Or(v.Seeds, defaultSeeds)
	v.Shards = cmp.Or(v.Shards, 1)
	return v
}

// share sets the shard of this process, unless the options have set it. text is
// the value of the environment variable RECONCILETEST_SHARD, or "".
func (o *Options) share(text string) error {
	if o.Shards != 0 || text == "" {
		return nil
	}
	part, total, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(part)
	count, err2 := strconv.Atoi(total)
	if err != nil || err2 != nil || n < 1 || n > count {
		return fmt.Errorf("%s=%q: must be from 1/n to n/n", shardVariable, text)
	}
	o.Shard, o.Shards = n-1, count
	return nil
}

// spend reads the budget from the environment. It sets strict if an incomplete
// exploration must fail.
func (o *Options) spend() error {
	if text := os.Getenv(budgetVariable); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s=%q: must be a duration, such as 5m", budgetVariable, text)
		}
		o.Budget, o.strict = d, !testing.Short()
		return nil
	}
	o.strict = o.Budget == 0 && os.Getenv("CI") != "" && !testing.Short()
	return nil
}

// validate returns all errors of the options, joined. The defaults must have
// been filled in.
func (o *Options) validate() error {
	check := option.Of("reconciletest.Options")
	check.That(o.Budget >= 0, "Budget", o.Budget, option.Negative)
	check.That(o.Steps >= 0, "Steps", o.Steps, option.Negative)
	check.That(o.Rest >= 0, "Rest", o.Rest, option.Negative)
	check.That(o.Lag >= 0, "Lag", o.Lag, option.Negative)
	check.That(o.Seeds >= 0, "Seeds", o.Seeds, option.Negative)
	check.That(o.Shards >= 0, "Shards", o.Shards, option.Negative)
	check.That(o.Shard >= 0 && o.Shard < o.Shards, "Shard", o.Shard, "must be from 0 to %d", o.Shards-1)
	for i, text := range o.KnownFindings {
		check.That(text != "", fmt.Sprintf("KnownFindings[%d]", i), text,
			"must not be empty: an empty text matches every finding")
	}
	return check.Err()
}
