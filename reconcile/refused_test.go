package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/reconcile"
)

// errForbidden is as the API server's authorizer words it.
func errForbidden(verb, resource, group, where string) error {
	return fmt.Errorf("patching: %w", apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "a",
		fmt.Errorf("User %q cannot %s resource %q in API group %q %s", "robot", verb, resource, group, where)))
}

func TestAControllerWhoseEveryWriteIsRefusedSaysWhichPermissionIsMissing(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b", "c")
		var allowed atomic.Bool
		var wrote atomic.Pointer[time.Time]
		c := w.made(nil, func(ctx context.Context, r request) (reconcile.Result, error) {
			object, _ := r.Object()
			switch {
			case r.Key.Name == "c":
				return nothing, apierrors.NewForbidden(schema.GroupResource{}, "c", errors.New("exceeded quota"))
			case allowed.Load():
				reconcile.Wrote(ctx, object)
				now := time.Now()
				wrote.Store(&now)
				return nothing, nil
			case r.Key.Name == "a":
				return nothing, errForbidden("patch", "deployments/scale", "apps", `in the namespace "d"`)
			default:
				return nothing, errors.Join(errStale, errForbidden("delete", "nodes", "", "at the cluster scope"))
			}
		})
		w.Expect(c.Refused()).To(Succeed())
		stop := w.startRun(c.Run)
		pass(59 * time.Second)
		w.Expect(c.Refused()).To(Succeed())
		pass(2 * time.Second)
		w.Expect(c.Refused()).To(MatchError(HaveSuffix(
			`missing permissions: delete nodes at the cluster scope, patch deployments.apps/scale in namespace "d"`)))
		allowed.Store(true)
		w.update("a", func(o *configMap) { o.Labels = map[string]string{"v": "2"} })
		w.reconciled()
		w.Expect(c.Refused()).To(Succeed(), "not every write")
		allowed.Store(false)
		pass(time.Until(wrote.Load().Add(time.Minute - 1)))
		w.Expect(c.Refused()).To(Succeed(), "not for a minute")
		pass(1)
		w.Expect(c.Refused()).To(MatchError(HaveSuffix("missing permissions: delete nodes at the cluster scope")))
		w.Expect(stop()).To(Succeed())
	})
}

func TestThreeMissingPermissionsAreNamedAndTheOthersCounted(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b", "c", "d", "e", "f")
		c := w.made(nil, func(_ context.Context, r request) (reconcile.Result, error) {
			resource := r.Key.Name
			if resource == "f" {
				resource = "a" // two keys lack the same
			}
			return nothing, errForbidden("create", resource, "", `in the namespace "d"`)
		})
		stop := w.startRun(c.Run)
		pass(2 * time.Minute)
		w.Expect(c.Refused()).To(MatchError(HaveSuffix(`missing permissions: ` +
			`create a in namespace "d", create b in namespace "d", create c in namespace "d", 2 more`)))
		w.Expect(stop()).To(Succeed())
	})
}

func TestReadsThatAreRefusedAreNoWrites(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) {
			return nothing, errForbidden("get", "secrets", "", `in the namespace "d"`)
		})
		stop := w.startRun(c.Run)
		pass(5 * time.Minute)
		w.Expect(c.Refused()).To(Succeed())
		w.Expect(stop()).To(Succeed())
	})
}

func TestAStandbyIsNotRefused(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		leadership := terms{make(chan bool)}
		c := w.made(&reconcile.Options{Leader: leadership}, func(context.Context, request) (reconcile.Result, error) {
			return nothing, errForbidden("update", "pods", "", `in the namespace "d"`)
		})
		stop := w.startRun(c.Run)
		w.reconciled()
		leadership.change <- true
		pass(2 * time.Minute)
		w.Expect(c.Refused()).To(HaveOccurred())
		leadership.change <- false
		pass(2 * time.Minute)
		w.Expect(c.Refused()).To(Succeed())
		w.Expect(stop()).To(Succeed())
	})
}
