package reconcile_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// outside is a system that keeps a name for each ConfigMap, and some more.
type outside struct {
	mu    sync.Mutex
	names map[reconcile.Key]bool
}

func (o *outside) Names(context.Context) (all []names.Name, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.names {
		all = append(all, names.Name{Key: key})
	}
	return all, nil
}

// What a replica reconciles, what it owns and what it looks for in an outside
// system are of the same namespaces, and together the replicas have all of
// them.
func TestPrimaryOwnedAndKnownAgreeOnTheNamespaces(t *testing.T) {
	for _, selects := range []bool{true, false} {
		inFleet(t, &apisim.Options{Shards: selects}, func(x *fleet) {
			const all = 24
			x.create(all)
			system := &outside{names: map[reconcile.Key]bool{}}
			for n := range all {
				x.own(n)
				system.names[reconcile.Key{Namespace: namespace(n), Name: "a"}] = true
				system.names[reconcile.Key{Namespace: namespace(n), Name: "orphan"}] = true
			}
			x.options = func(m *member) *reconcile.Options {
				return &reconcile.Options{
					Triggers: []reconcile.Trigger{reconcile.Owned(m.secrets), mapped(m).Triggers[1]},
					Known:    system, Sweep: &names.Options{Period: time.Minute, MaxCount: 1, MaxShare: 0.5},
				}
			}
			sweeps := map[string]*names.Sweep{}
			for _, name := range []string{"a", "b", "c"} {
				sweeps[name] = x.joinWith(name, x.sim.Config(name)).Sweep()
			}
			pass(3 * time.Minute)
			x.agree(all, sweeps)
			for n := range all {
				x.Expect(x.by(namespace(n), "orphan")).To(Equal(x.by(namespace(n), "a")), "one replica, and the same")
			}
			sweeps["d"] = x.joinWith("d", x.sim.Config("d")).Sweep()
			pass(3 * time.Minute)
			x.agree(all, sweeps)

			x.forget()
			for n := range all {
				x.Expect(x.admin.CoreV1().Secrets(namespace(n)).Delete(x.t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
			}
			pass(time.Second)
			for n := range all {
				x.Expect(x.by(namespace(n), "a")).To(HaveLen(1), "its owner is reconciled by one replica")
				x.own(n)
			}
			pass(time.Second)
			x.agree(all, sweeps)
		})
	}
}

// own makes the Secret of a namespace one that its ConfigMap owns.
func (x *fleet) own(n int) {
	owner, err := x.admin.CoreV1().ConfigMaps(namespace(n)).Get(x.t.Context(), "a", metav1.GetOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	secrets := x.admin.CoreV1().Secrets(namespace(n))
	_ = secrets.Delete(x.t.Context(), "a", metav1.DeleteOptions{})
	_, err = secrets.Create(x.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "a", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: owner.UID, Controller: new(true)},
		},
	}}, metav1.CreateOptions{})
	x.Expect(err).NotTo(HaveOccurred())
}

// agree wants each replica's sweep to be about the names in the namespaces that
// it caches.
func (x *fleet) agree(all int, sweeps map[string]*names.Sweep) {
	x.t.Helper()
	x.cached(all)
	for name, sweep := range sweeps {
		x.Expect(sweep.Ready()).To(Succeed(), "as many orphans as others: no safety limit is exceeded")
		own := x.members[name].configMaps.Snapshot().Len()
		x.Expect(own).To(BeNumerically(">", 0))
		x.Expect(sweep.Stats().Known).To(Equal(2*own), name)
		x.Expect(sweep.Stats().OutOfScope).To(Equal(2*(all-own)), name)
	}
}

// by returns the replicas that have reconciled a key.
func (x *fleet) by(namespace, name string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(x.reconciledBy[reconcile.Key{Namespace: namespace, Name: name}])))
}

func (x *fleet) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.reconciledBy)
}
