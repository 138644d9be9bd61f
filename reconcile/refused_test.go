package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// errForbidden is as the API server's authorizer words it.
func errForbidden(verb, resource, group, where string) error {
	return fmt.Errorf("patching: %w", apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "a",
		fmt.Errorf("User %q cannot %s resource %q in API group %q %s", "robot", verb, resource, group, where)))
}

// inNamespaces lets the fixture cache all namespaces, with an object in each of
// these.
func (w *fixture) inNamespaces(namespaces ...string) {
	w.in = informer.For(w.client.CoreV1().ConfigMaps(""), nil)
	for _, namespace := range namespaces {
		object := &configMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
		_, err := w.client.CoreV1().ConfigMaps(namespace).Create(w.t.Context(), object, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
	}
}

// refusedIn is a reconciler whose writes are refused in the namespaces that are
// stored.
func refusedIn(namespaces *atomic.Pointer[[]string]) reconcFn {
	return func(_ context.Context, r request) (reconcile.Result, error) {
		if slices.Contains(*namespaces.Load(), r.Key.Namespace) {
			return nothing, errForbidden("patch", "deployments/scale", "apps", fmt.Sprintf("in the namespace %q", r.Key.Namespace))
		}
		return reconcile.After(time.Minute), nil
	}
}

// One tenant has not granted the permission that the program needs. This
// concerns only that tenant.
func TestOneTenantWithoutPermissionLeavesTheControllerReady(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.inNamespaces("a", "b", "c")
		var namespaces atomic.Pointer[[]string]
		namespaces.Store(&[]string{"b"})
		c := w.made(nil, refusedIn(&namespaces))
		stop := w.startRun(c.Run)
		pass(59 * time.Second)
		w.Expect(c.Problems()).To(BeEmpty())
		pass(2 * time.Second)
		for range 100 {
			pass(time.Minute)
			w.Expect(c.Refused()).To(Succeed(), "never, so that it does not flap")
			w.Expect(c.Problems()).To(HaveExactElements(And(
				HaveField("Check", "controller/test"), HaveField("Object", "b/a"), HaveField("Cause", "missing permission"),
				HaveField("Reason", ContainSubstring(`patch deployments.apps/scale in namespace "b"`)))))
		}
		namespaces.Store(&[]string{})
		pass(20 * time.Minute)
		w.Expect(c.Problems()).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

func TestAMissingPermissionIsAnEventAboutTheObjectAfterAMinute(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.inNamespaces("a", "b")
		var namespaces atomic.Pointer[[]string]
		namespaces.Store(&[]string{"b"})
		recorder := events.NewFakeRecorder(100)
		c := w.made(&reconcile.Options{Events: recorder}, refusedIn(&namespaces))
		stop := w.startRun(c.Run)
		pass(59 * time.Second)
		w.Expect(recorder.Events).NotTo(Receive())
		pass(time.Hour)
		w.Expect(recorder.Events).To(Receive(And(HavePrefix("Warning MissingPermission Controller test: "),
			ContainSubstring(`patch deployments.apps/scale in namespace "b"; grant it to "robot"`))))
		w.Expect(recorder.Events).NotTo(Receive(), "it is sent once")
		w.Expect(stop()).To(Succeed())
	})
}

// A single tenant is no proof either.
func TestTheFirstTenantWithoutPermissionLeavesTheControllerReady(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.inNamespaces("a")
		var namespaces atomic.Pointer[[]string]
		namespaces.Store(&[]string{"a"})
		c := w.made(nil, refusedIn(&namespaces))
		stop := w.startRun(c.Run)
		pass(time.Hour)
		w.Expect(c.Refused()).To(Succeed())
		w.Expect(c.Problems()).To(HaveLen(1))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAControllerThatIsRefusedNearlyEverywhereSaysWhichPermissionIsMissing(t *testing.T) {
	inFixture(t, func(w *fixture) {
		all := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		w.inNamespaces(all...)
		var namespaces atomic.Pointer[[]string]
		refused := all[1:]
		namespaces.Store(&refused)
		c := w.made(nil, refusedIn(&namespaces))
		w.Expect(c.Refused()).To(Succeed())
		stop := w.startRun(c.Run)
		pass(59 * time.Second)
		w.Expect(c.Refused()).To(Succeed())
		pass(2 * time.Second)
		w.Expect(c.Refused()).To(MatchError(HaveSuffix(`missing permissions: patch deployments.apps/scale in namespace "b", ` +
			`patch deployments.apps/scale in namespace "c", patch deployments.apps/scale in namespace "d", 6 more`)))
		w.Expect(c.Problems()).To(HaveLen(9))

		fewer := all[2:] // eight of ten are not nearly all
		namespaces.Store(&fewer)
		pass(20 * time.Minute)
		w.Expect(c.Refused()).To(Succeed())
		w.Expect(c.Problems()).To(HaveLen(8))
		w.Expect(stop()).To(Succeed())
	})
}

func TestTenProblemsOfACauseAreListedAndTheOthersCounted(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var all []string
		for n := range 15 {
			all = append(all, fmt.Sprintf("n-%02d", n))
		}
		w.inNamespaces(all...)
		var namespaces atomic.Pointer[[]string]
		namespaces.Store(&all)
		c := w.made(nil, refusedIn(&namespaces))
		stop := w.startRun(c.Run)
		pass(2 * time.Minute)
		w.Expect(c.Problems()).To(HaveLen(10))
		w.Expect(c.Problems()[9].More).To(Equal(5))
		w.Expect(stop()).To(Succeed())
	})
}

// A controller that caches a single namespace needs the permission in that
// namespace only.
func TestAControllerOfOneNamespaceIsRefusedIfSeveralKeysAre(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b", "c")
		var allowed atomic.Bool
		c := w.made(nil, func(_ context.Context, r request) (reconcile.Result, error) {
			switch {
			case r.Key.Name == "c" && allowed.Load():
				return nothing, apierrors.NewForbidden(schema.GroupResource{}, "c", errors.New("exceeded quota"))
			case r.Key.Name == "a":
				return nothing, errForbidden("patch", "deployments/scale", "apps", `in the namespace "d"`)
			default:
				return nothing, errors.Join(errStale, errForbidden("delete", "nodes", "", "at the cluster scope"))
			}
		})
		stop := w.startRun(c.Run)
		pass(2 * time.Minute)
		w.Expect(c.Refused()).To(MatchError(HaveSuffix(
			`missing permissions: delete nodes at the cluster scope, patch deployments.apps/scale in namespace "d"`)))
		w.Expect(c.Problems()).To(HaveLen(2))
		w.Expect(c.Problems()[0].More).To(Equal(1), "b, and c")
		allowed.Store(true)
		w.update("c", func(o *configMap) { o.Labels = map[string]string{"v": "2"} })
		w.reconciled()
		w.Expect(c.Refused()).To(Succeed(), "c is not, so these are not nearly all")
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

// A quota, a policy or a firewall refuses with 403, too. No permission would
// help, nor would a restart.
func TestARefusalThatIsNoMissingPermissionLeavesTheControllerReady(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for name, err := range map[string]error{
		"a quota": apierrors.NewForbidden(configMaps, "a", errors.New("exceeded quota: q, requested: count/configmaps=1")),
		"pod security": apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a",
			errors.New(`violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`)),
		"a webhook": &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: `admission webhook "policy.example.com" denied the request: user "a" cannot do this`,
		}},
		"a firewall": apierrors.NewGenericServerResponse(http.StatusForbidden, "create", configMaps, "a", "<html>", 0, true),
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.inNamespaces("a", "b", "c", "d")
				c := w.made(nil, func(context.Context, request) (reconcile.Result, error) { return nothing, err })
				stop := w.startRun(c.Run)
				pass(10 * time.Minute)
				w.Expect(c.Refused()).To(Succeed())
				w.Expect(stop()).To(Succeed())
			})
		})
	}
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
		w.create("a", "b")
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

// Keys that other replicas reconcile count neither as refused to this replica
// nor as granted.
func TestOnlyTheKeysOfThisReplicaCount(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.inNamespaces("a", "b")
		for _, namespace := range []string{"a", "b", "c"} {
			object := &configMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
			_, err := w.client.CoreV1().ConfigMaps(namespace).Create(w.t.Context(), object, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		}
		var namespaces atomic.Pointer[[]string]
		namespaces.Store(&[]string{"a", "b"})
		p := newParts()
		c := w.made(&reconcile.Options{Shards: p}, refusedIn(&namespaces))
		stop := w.startRun(c.Run)
		pass(time.Second)
		p.take('a')
		pass(2 * time.Minute)
		w.Expect(c.Refused()).To(MatchError(ContainSubstring("nearly all keys (2)")))
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		w.Expect(c.Refused()).To(Succeed())
		w.Expect(stop()).To(Succeed())
	})
}

// The errors of only so many keys are remembered. Further keys without a
// remembered error do not make the program ready.
func TestRefusalsOfMoreKeysThanAreRememberedAreNearlyAll(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.inNamespaces("a", "b")
		for n := range 1200 {
			namespace := []string{"a", "b"}[n%2]
			object := &configMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("more-", n)}}
			_, err := w.client.CoreV1().ConfigMaps(namespace).Create(w.t.Context(), object, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		}
		var namespaces atomic.Pointer[[]string]
		namespaces.Store(&[]string{"a", "b"})
		c := w.made(nil, refusedIn(&namespaces))
		stop := w.startRun(c.Run)
		pass(3 * time.Minute)
		w.Expect(c.Refused()).To(MatchError(ContainSubstring("nearly all keys (1000)")))
		w.Expect(stop()).To(Succeed())
	})
}
