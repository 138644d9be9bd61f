package operator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

// tenantsInterval is the interval between two checks of the needs whose
// namespace ends with a question mark; see [Program.Needs].
const tenantsInterval = 30 * time.Second

// mostTenants is the highest number of problems that are listed. Further
// problems are counted in Problem.More of the last one.
const mostTenants = 10

// tenants checks the needs whose namespace ends with a question mark (see
// [Program.Needs]), and reports the permissions that are missing.
type tenants struct {
	asker asker
	needs []permission

	mu      sync.Mutex // guards missing
	missing []bool     // whether a permission is missing, by the index in needs
}

// watchTenants checks the needs whose namespace ends with a question mark,
// until stop is called.
func (p Program) watchTenants(ctx context.Context, asks asker, needs []permission) (stop func()) {
	required := func(need permission) bool { return !need.mayBeMissing }
	t := &tenants{asker: asks, needs: slices.DeleteFunc(slices.Clone(needs), required)}
	if len(t.needs) == 0 {
		return func() {}
	}
	t.missing = make([]bool, len(t.needs))
	reportProblems(ctx, t.problems)
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			for n := range t.needs {
				t.ask(ctx, n)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(tenantsInterval):
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// ask checks one need. If the server does not answer, the previous result
// stays.
func (t *tenants) ask(ctx context.Context, n int) {
	need := t.needs[n]
	c := t.asker.clusters[need.cluster]
	if c == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	granted, err := isAllowed(limited, c.Client(), need)
	if err != nil {
		return
	}
	t.mu.Lock()
	changed := t.missing[n] == granted
	t.missing[n] = !granted
	t.mu.Unlock()
	log := logr.FromContextOrDiscard(ctx)
	switch {
	case changed && granted:
		log.Info("the missing permission was granted", "permission", need.String())
	case changed:
		log.Info("missing permission in a namespace, retrying", "permission", need.String(), "grantWith", need.role())
	}
}

// problems returns a problem for each missing permission, but at most
// mostTenants. The last problem counts the others.
func (t *tenants) problems() (problems []inspect.Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, need := range t.needs {
		switch {
		case !t.missing[n]:
		case len(problems) == mostTenants:
			problems[mostTenants-1].More++
		default:
			problems = append(problems, inspect.Problem{
				Check: "permissions", Object: fmt.Sprintf("namespace %q", need.Namespace), Cause: "missing permission",
				Reason: inCluster(need.cluster, fmt.Errorf("%w to %s", ErrPermission, need)).Error(),
				Remedy: "grant it, for example with " + need.role(),
			})
		}
	}
	return problems
}
