package reconciletest

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What the zero Options mean.
const (
	DefaultBudget      = 10 * time.Second
	DefaultShortBudget = 2 * time.Second
	DefaultSteps       = 20_000
	DefaultRest        = 2 * time.Minute
	DefaultLag         = 5 * time.Second
	DefaultSeeds       = 50
)

// ShardVariable is the environment variable that tells a process its part of all explorations whose Options do not: 1/4
// is the first of four. One process for each core goes through more than several tests in one:
//
//	seq 4 | xargs -P 4 -I N env RECONCILETEST_SHARD=N/4 GOMAXPROCS=1 go test -run TestKeySurvives .
const ShardVariable = "RECONCILETEST_SHARD"

// Options of an exploration. nil and zero fields mean the defaults.
type Options struct {
	// Budget is how long the exploration may take, in real time. Default [DefaultBudget], with go test -short
	// [DefaultShortBudget]. The runs are the same ones in the same order; a smaller budget makes fewer.
	Budget time.Duration
	// Steps bounds one run; more mean that it never comes to rest. Default [DefaultSteps].
	Steps int
	// Rest is how long, in virtual time, nobody may write until the program counts as at rest. It must be
	// longer than the longest back-off of the program after one failure. Default [DefaultRest].
	Rest time.Duration
	// Lag is how long, in virtual time, a watch is held back. Default [DefaultLag].
	Lag time.Duration
	// SkipDrift leaves out the runs in which somebody deletes or edits what the program made.
	SkipDrift bool
	// Seeds is how many runs follow in another order, each with some deviations by chance. Default [DefaultSeeds].
	Seeds int
	// Shards shares the exploration among so many processes, of which this one is number Shard, from 0: each makes
	// the runs without faults, and its part of the others; all together make those that one process would. Each has the
	// whole Budget. Default: what the environment says, see [ShardVariable], and otherwise one process makes all.
	Shard, Shards int
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	budget := DefaultBudget
	if testing.Short() {
		budget = DefaultShortBudget
	}
	v.Budget = cmp.Or(v.Budget, budget)
	v.Steps = cmp.Or(v.Steps, DefaultSteps)
	v.Rest = cmp.Or(v.Rest, DefaultRest)
	v.Lag = cmp.Or(v.Lag, DefaultLag)
	v.Seeds = cmp.Or(v.Seeds, DefaultSeeds)
	v.Shards = cmp.Or(v.Shards, 1)
	return v
}

// share reads which part of the exploration is this process's, unless the options say it.
func (o *Options) share(text string) error {
	if o.Shards != 0 || text == "" {
		return nil
	}
	part, of, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(part)
	all, err2 := strconv.Atoi(of)
	if err != nil || err2 != nil || n < 1 || n > all {
		return fmt.Errorf("%s=%q: must be from 1/n to n/n", ShardVariable, text)
	}
	o.Shard, o.Shards = n-1, all
	return nil
}

func (o *Options) validate() error {
	var faults []error
	for name, v := range map[string]time.Duration{"Budget": o.Budget, "Rest": o.Rest, "Lag": o.Lag} {
		if v < 0 {
			faults = append(faults, fmt.Errorf("%s %v: must not be negative", name, v))
		}
	}
	for name, v := range map[string]int{"Steps": o.Steps, "Seeds": o.Seeds, "Shards": o.Shards} {
		if v < 0 {
			faults = append(faults, fmt.Errorf("%s %d: must not be negative", name, v))
		}
	}
	if o.Shard < 0 || o.Shard >= o.Shards {
		faults = append(faults, fmt.Errorf("Shard %d: must be from 0 to %d", o.Shard, o.Shards-1))
	}
	return errors.Join(faults...)
}
