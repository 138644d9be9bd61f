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
	defaultSingles     = 50 * time.Second // of it, only for single deviations
	defaultShortBudget = 2 * time.Second
	defaultSteps       = 20_000
	defaultRest        = 2 * time.Minute
	defaultLag         = 5 * time.Second
	defaultSeeds       = 50
)

// shardVariable is the environment variable with the part of a process: 1/4 is
// the first of four.
const shardVariable = "RECONCILETEST_SHARD"

// budgetVariable is the environment variable with the budget of each exploration.
const budgetVariable = "RECONCILETEST_BUDGET"

// Options of an exploration. nil and zero fields mean the defaults. Wrong
// options end the test at once, with every error.
//
// Concurrency: an exploration copies them and does not modify them, so several
// may share them.
type Options struct {
	// Budget is how long the exploration may take, in real time. The runs are
	// always the same ones in the same order; a smaller budget makes fewer of
	// them. The environment variable RECONCILETEST_BUDGET, such as 5m,
	// overrides it, and makes [Explore] fail unless every single deviation was
	// tried; so does the environment variable CI, which build servers set, if
	// there is no Budget. Defaults to a minute, of which pairs and orders may
	// use the first 10 seconds; with go test -short to 2 seconds.
	Budget time.Duration
	// Steps is the maximum length of a run: a longer one counts as never coming
	// to rest. A step is a call, a delivery, an act or a key that a worker
	// takes. Defaults to 20,000.
	Steps int
	// Rest is how long, in virtual time, no client may write before the program
	// counts as at rest. It must be longer than anything that the program waits
	// for: the back-off after half a minute of failures, an outside job, a time
	// to live. Defaults to 2 minutes.
	Rest time.Duration
	// Lag is how long, in virtual time, a watch or a slow call is held back.
	// Defaults to 5 seconds.
	Lag time.Duration
	// SkipDrift leaves out the runs in which another client deletes or edits
	// the program's objects, for programs that need not repair that. Objects
	// that a step has written to are never deleted, since nothing would repeat
	// the step's write: let an actor write them, as actors.Deployments writes a
	// status.
	SkipDrift bool
	// Seeds is the number of runs in a random order, each with a few random
	// deviations, that follow the planned ones. Defaults to 50.
	Seeds int
	// KnownFindings lists findings to tolerate, each as a substring of
	// [Report].Failure before its token, such as "caches that begin" or "500
	// instead of call". A run with such a finding counts as survived, and the
	// exploration continues. A finding that cuts the run without faults short
	// is not tolerated. Defaults to none.
	KnownFindings []string
	// Shards divides the exploration among processes, of which this one is
	// number Shard, from 0. Each makes the runs without faults, and its share
	// of the others; together they make the runs that one process would. Each
	// has the whole Budget. Defaults to the environment variable
	// RECONCILETEST_SHARD, where 1/4 is the first of four, or else to one
	// process:
	//
	//	seq 4 | xargs -P 4 -I {} env RECONCILETEST_SHARD={}/4 GOMAXPROCS=1 go test -run TestKeySurvives .
	Shard, Shards int

	singles time.Duration // of the budget, reserved for single deviations
	strict  bool          // an incomplete exploration fails
}

// withDefaults returns a copy of o, which may be nil, with the defaults in the
// fields that are not set.
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

// share reads the part of this process from the environment, unless the options
// name it.
func (o *Options) share(text string) error {
	if o.Shards != 0 || text == "" {
		return nil
	}
	part, of, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(part)
	all, err2 := strconv.Atoi(of)
	if err != nil || err2 != nil || n < 1 || n > all {
		return fmt.Errorf("%s=%q: must be from 1/n to n/n", shardVariable, text)
	}
	o.Shard, o.Shards = n-1, all
	return nil
}

// spend reads the budget from the environment, and decides whether everything
// has to be tried.
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

// validate returns everything that is wrong with options whose defaults are
// filled in, joined.
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
		check.That(text != "", fmt.Sprintf("KnownFindings[%d]", i), text, "must not be empty, which is in every finding")
	}
	return check.Err()
}
