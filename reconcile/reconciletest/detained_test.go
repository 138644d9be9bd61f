package reconciletest_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// finalizing gives each parent a finalizer, and takes it away when the parent
// is deleted. The buggy one gives it back while another finalizer holds the
// parent.
func finalizing(looks bool) func(env *reconciletest.Env) error {
	const own = "example.com/finalizing"
	return func(env *reconciletest.Env) error {
		client := env.Client()
		do := reconcile.Func[*corev1.ConfigMap](func(ctx context.Context,
			r reconcile.Request[*corev1.ConfigMap],
		) (reconcile.Result, error) {
			p, ok := r.Object()
			if !ok || looks && p.DeletionTimestamp != nil && !slices.Contains(p.Finalizers, own) {
				return reconcile.Result{}, nil
			}
			_, err := patch.Merge(ctx, client.CoreV1().ConfigMaps, p, nil, func(edit *corev1.ConfigMap) {
				switch at := slices.Index(edit.Finalizers, own); {
				case at < 0:
					edit.Finalizers = append(edit.Finalizers, own)
				case edit.DeletionTimestamp != nil:
					edit.Finalizers = slices.Delete(edit.Finalizers, at, at+1)
				}
			})
			return reconcile.Result{}, err
		})
		return reconcile.Run(env.Context(), "finalizing", breeding.Parents(client), do)
	}
}

// replacing creates a child again as soon as its deletion has begun. The buggy
// one does so only once, even if the server refuses it.
func replacing(once bool) func() breeding.Breed {
	return func() breeding.Breed {
		var mu sync.Mutex
		done := map[types.UID]types.UID{} // the child that was replaced last, by its parent
		return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range b.ChildrenOf(p) {
				if s.DeletionTimestamp == nil {
					delete(done, p.UID)
					return nil
				}
				done[p.UID] = s.UID
			}
			if once && done[p.UID] != "" {
				return nil
			}
			return b.Create(ctx, breeding.Child(p))
		}
	}
}

func TestWhatAFinalizerHoldsIsDeletedLater(t *testing.T) {
	for name, row := range map[string]struct {
		run    func(env *reconciletest.Env) error
		match  string
		oracle string
		want   string
	}{
		"a finalizer that comes back": {
			finalizing(false), "^z", "vain",
			"deletes input 1, and a finalizer holds it.*no new finalizers can be added",
		},
		"a finalizer that stays away": {finalizing(true), "^[zk]", "", ""},
		"a child that is replaced once": {
			bootEach(replacing(true)), "^k", "state",
			"deletes output 1, and a finalizer holds it.*\n.*- secrets d/a-child = there",
		},
		"a child that is replaced": {bootEach(replacing(false)), "^[zk]", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(breeding.Right)
			c.Run, c.Goal = row.run, nil
			r := reconciletest.FailureOf(t, c, nil, row.match)
			g.Expect(r.Oracle).To(gomega.Equal(row.oracle), r.Failure)
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
		})
	}
}

// stubborn repeats the same write until the server accepts it. The right one
// reads the object from the cache before each attempt.
func stubborn(forgets bool) func() breeding.Breed {
	return func() breeding.Breed {
		var mu sync.Mutex
		edits := map[types.UID]*corev1.ConfigMap{}
		return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
			mu.Lock()
			defer mu.Unlock()
			edit := edits[p.UID]
			if edit == nil {
				if p.Annotations["ready"] != "" {
					return nil
				}
				edit = p.DeepCopy()
				metav1.SetMetaDataAnnotation(&edit.ObjectMeta, "ready", "yes")
			}
			_, err := b.Client.CoreV1().ConfigMaps(p.Namespace).Update(ctx, edit, metav1.UpdateOptions{})
			if edits[p.UID] = edit; err == nil || forgets {
				delete(edits, p.UID)
			}
			return err
		}
	}
}

// The state at the end is correct, because the first attempt has written the
// object that all later attempts cannot write.
func TestAWriteThatIsRefusedForeverAfterAFaultIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		forgets bool
		oracle  string
		want    string
	}{
		"as it was": {false, "vain", "reply is lost.*again and again, long after the fault: update configmaps d/.*→ 409"},
		"anew":      {true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(nil)
			c.Run, c.Goal = bootEach(stubborn(row.forgets)), nil
			c.Workload = nil
			r := reconciletest.FailureOf(t, c, nil, "lost$")
			g.Expect(r.Oracle).To(gomega.Equal(row.oracle), r.Failure)
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
		})
	}
}
