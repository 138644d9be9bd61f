package reconciletest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Live lets actors live in a world without a program: look is told of each rest, by the number of steps before it. It
// returns what was written, with the time since the beginning.
func Live(t *testing.T, c *Case, look func(step int, w *World)) []string {
	t.Helper()
	var writes []string
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		fixChance()
		idle := *c
		idle.Run = func(env *Env) error {
			<-env.Context().Done()
			return nil
		}
		r, err := newRun(&idle, (&Options{}).withDefaults(), nil, setting{seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r.sim.OnCommit(func(e apisim.Event) {
			resource := e.Resource.Resource
			if e.Call.Subresource != "" {
				resource += "/" + e.Call.Subresource
			}
			writes = append(writes, fmt.Sprintf("%v %s %s %s", time.Since(began), e.Call.Verb, resource, stem(e)))
		})
		r.bootAll(ctx)
		for step := 0; ; step++ {
			r.settle(ctx)
			look(step, r.world)
			if r.next >= len(c.Workload) {
				break
			}
			began = time.Now()
			r.step(ctx)
		}
		if r.out.finding != nil {
			t.Error(r.out.finding.text)
		}
		r.finish()
	})
	return writes
}
