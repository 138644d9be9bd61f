package names_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/names"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"The names are listed first, and the cache is synced after that, so an object that is created and registered in " +
			"between is not an orphan.": createdInBetween,
		"All names or none: if the Lister fails, panics or takes longer than Options.Timeout, or the cache does not sync, no " +
			"orphan is enqueued, the sweep is retried with back-off, and Sweep.Ready says why.": allNamesOrNone,
		"A sweep in which more than MaxCount names and more than MaxShare of them would be orphans is refused.": refusesTooMany,
		"Sweep.Confirm lets one sweep pass.": confirmedOnce,
		"A name with a UID is also an orphan if its object was recreated: Orphan.Replaced is then set.": recreated,
		"Live asks the server, not a cache, and distinguishes a deleted object from an error.":          asksTheServer,
		"Only the server's own answer about this object proves that it is deleted, not any status 404.": onlyItsOwnAnswer,
	})
}

// createdInBetween creates an object and registers it at every moment at which
// the sweep asks for something.
func createdInBetween(t *testing.T) {
	for _, moment := range []string{"before the listing", "during the listing", "before the sync"} {
		t.Run(moment, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture("default/a")
			f.known = listing("default/a")
			create := func(now string) {
				if now == moment { // the object first, then its name, as a reconciler does
					f.live[key("default/new")] = uid2
					f.known = append(f.known, known("default/new", ""))
				}
			}
			lister := names.Func(func(ctx context.Context) ([]names.Name, error) {
				create("before the listing")
				all, err := f.Names(ctx)
				create("during the listing")
				all = slices.Concat(all, f.known)
				create("before the sync")
				return all, err
			})
			g.Expect(f.sweep(t, lister, nil).Once(t.Context())).To(BeZero())
			g.Expect(f.asked).To(Equal([]string{"names", "sync", "find"}))
		})
	}
}

func allNamesOrNone(t *testing.T) {
	for name, c := range map[string]struct {
		lister  names.Lister
		syncErr error
		why     string
	}{
		"the lister fails": {names.Func(func(context.Context) ([]names.Name, error) {
			return listing("default/gone"), errors.New("half of the zone")
		}), nil, "half of the zone"},
		"one of several listers fails": {names.Union(
			names.Func(func(context.Context) ([]names.Name, error) { return listing("default/gone"), nil }),
			names.Func(func(context.Context) ([]names.Name, error) { return nil, errors.New("second zone") }),
		), nil, "second zone"},
		"the lister panics": {names.Func(func(context.Context) ([]names.Name, error) {
			panic("no zone")
		}), nil, "no zone"},
		"the lister takes too long": {names.Func(func(ctx context.Context) ([]names.Name, error) {
			<-ctx.Done()
			return listing("default/gone"), nil // as if that were all
		}), nil, "Options.Timeout"},
		"the cache does not sync": {names.Func(func(context.Context) ([]names.Name, error) {
			return listing("default/gone"), nil
		}), errors.New("services is forbidden"), "services is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				f := newFixture("default/a")
				f.syncErr = c.syncErr
				var tries []time.Time
				counting := names.Func(func(ctx context.Context) ([]names.Name, error) {
					defer func() { tries = append(tries, time.Now()) }()
					return c.lister.Names(ctx)
				})
				s := f.sweep(t, counting, &names.Options{Timeout: time.Second})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- s.Run(ctx) }()
				<-time.After(10 * time.Minute)
				g.Expect(s.Ready()).To(MatchError(ContainSubstring(c.why)))
				cancel()
				g.Expect(<-ended).To(Succeed())
				g.Expect(f.orphans).To(BeEmpty())
				g.Expect(len(tries)).To(BeNumerically(">", 4))
				g.Expect(tries[4].Sub(tries[3])).To(BeNumerically(">", tries[2].Sub(tries[1])))
			})
		})
	}
}

// refusesTooMany tries every number of orphans among 40 names, against both
// limits.
func refusesTooMany(t *testing.T) {
	const known, share = 40, 0.25 // ten of them
	for i := range 2 * (known + 1) {
		orphans, most := i/2, []int{5, 15}[i%2]
		g := NewWithT(t)
		f := newFixture()
		f.known = many(known)
		for _, n := range f.known[orphans:] {
			f.live[n.Key] = uid1
		}
		_, err := f.sweep(t, nil, &names.Options{MaxCount: most, MaxShare: share}).Once(t.Context())
		if orphans > most && float64(orphans) > share*known {
			g.Expect(err).To(BeAssignableToTypeOf(&names.RefusedError{}), "%d orphans", orphans)
			g.Expect(f.orphans).To(BeEmpty())
		} else {
			g.Expect(err).NotTo(HaveOccurred(), "%d orphans", orphans)
			g.Expect(f.orphans).To(HaveLen(orphans))
		}
	}
}

func confirmedOnce(t *testing.T) {
	g := NewWithT(t)
	f := newFixture()
	f.known = many(20)
	s := f.sweep(t, nil, nil)
	_, err := s.Once(t.Context())
	g.Expect(err).To(HaveOccurred())
	s.Confirm(20)
	g.Expect(s.Once(t.Context())).To(Equal(20))
	f.orphans = nil
	_, err = s.Once(t.Context())
	g.Expect(err).To(BeAssignableToTypeOf(&names.RefusedError{}))
	s.Confirm(19) // fewer than there are
	_, err = s.Once(t.Context())
	g.Expect(err).To(BeAssignableToTypeOf(&names.RefusedError{}))
	g.Expect(f.orphans).To(BeEmpty())
}

func recreated(t *testing.T) {
	g := NewWithT(t)
	f := newFixture("default/same", "default/recreated", "default/nameless")
	lister := names.Func(func(context.Context) ([]names.Name, error) {
		return []names.Name{
			known("default/same", uid1), known("default/recreated", uid2), known("default/nameless", ""), known("default/gone", uid2),
		}, nil
	})
	g.Expect(f.sweep(t, lister, nil).Once(t.Context())).To(Equal(2))
	g.Expect(f.orphans).To(ConsistOf(
		names.Orphan{Name: known("default/recreated", uid2), Replaced: true}, names.Orphan{Name: known("default/gone", uid2)},
	))
}

func asksTheServer(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid1}})
	services := client.CoreV1().Services("default")
	object, ok, err := names.Live(t.Context(), services, "web")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ok).To(BeTrue())
	g.Expect(object.UID).To(Equal(uid1))
	_, ok, err = names.Live(t.Context(), services, "gone")
	g.Expect(ok).To(BeFalse())
	g.Expect(err).NotTo(HaveOccurred())
	for _, read := range client.Actions() {
		get, isGet := read.(clienttesting.GetActionImpl)
		g.Expect(isGet).To(BeTrue(), "one GET each, and nothing else")
		g.Expect(get.GetOptions.ResourceVersion).To(BeEmpty(), "0 would be the server's cache")
	}
	g.Expect(client.Actions()).To(HaveLen(2))
	client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, (*corev1.Service)(nil), nil
	})
	_, ok, err = names.Live(t.Context(), services, "web")
	g.Expect(ok).To(BeFalse())
	g.Expect(err).To(MatchError(ContainSubstring("neither an object nor an error")))
	for _, away := range []error{
		apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "web", nil), apierrors.NewServiceUnavailable("away"),
		apierrors.NewTimeoutError("slow", 1), fmt.Errorf("no route"),
	} {
		client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, away
		})
		_, ok, err = names.Live(t.Context(), services, "web")
		g.Expect(ok).To(BeFalse())
		g.Expect(err).To(MatchError(away))
	}
}
