package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// A tenant has left: its namespace b can no longer be read. A new leader starts
// at once with the keys of the others. The keys of b wait until its caches are
// as new as the server, or for a minute.
func TestATakeoverWaitsForAFailingNamespaceOnlyWithTheKeysOfThatNamespace(t *testing.T) {
	for name, row := range map[string]struct {
		independent, returns bool
		a, b                 time.Duration // when the keys are reconciled, at the earliest
	}{
		"independent":                   {independent: true, b: time.Minute},
		"independent, and it is mended": {independent: true, returns: true, b: 20 * time.Second},
		"not independent":               {a: time.Minute, b: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				sim, err := apisim.New(nil)
				g.Expect(err).NotTo(HaveOccurred())
				var forbidden atomic.Bool
				sim.Deny(func(c apisim.Call) error {
					if forbidden.Load() && c.Client == "c" && c.Namespace == "b" {
						return apierrors.NewForbidden(corev1.Resource(c.Resource.Resource), "", errors.New("no RoleBinding"))
					}
					return nil
				})
				for _, key := range []reconcile.Key{keyIn("a", "1"), keyIn("b", "1")} {
					g.Expect(sim.Load(&configMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})).To(Succeed())
				}
				client := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1()
				o := &informer.Options{Namespaces: []string{"a", "b"}, Independent: row.independent}
				maps, secrets := informer.ForNamespaces(client.ConfigMaps, o), informer.ForNamespaces(client.Secrets, o)
				ran, start := map[string]time.Duration{}, time.Now()
				leadership := terms{make(chan bool)}
				c, err := reconcile.New("test", maps, reconcile.Func[*configMap](
					func(_ context.Context, r request) (reconcile.Result, error) {
						object, _ := r.Object()
						ran[r.Key.String()+object.Data["is"]] = time.Since(start)
						return nothing, nil
					}), &reconcile.Options{
					Workers: 1, // ran has no lock
					Leader:  leadership, Triggers: []reconcile.Trigger{reconcile.Owned(secrets)},
				})
				g.Expect(err).NotTo(HaveOccurred())
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- c.Run(ctx) }()
				pass(time.Minute)

				forbidden.Store(true)
				sim.DropWatches("", "")
				pass(time.Minute)
				admin := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("b")
				changed := &configMap{ObjectMeta: metav1.ObjectMeta{Name: "1"}, Data: map[string]string{"is": " new"}}
				_, err = admin.Update(ctx, changed, metav1.UpdateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				start = time.Now()
				leadership.change <- true
				pass(20 * time.Second)
				forbidden.Store(!row.returns)
				pass(2 * time.Minute)

				g.Expect(ran).To(HaveLen(2))
				g.Expect(ran).To(HaveKeyWithValue("a/1", And(BeNumerically(">=", row.a), BeNumerically("<", row.a+2*time.Second))))
				for key, after := range ran {
					if strings.HasPrefix(key, "b/1") {
						newest := map[bool]string{true: "b/1 new", false: "b/1"}
						g.Expect(key).To(Equal(newest[row.returns]), "a mended namespace is reconciled with its newest state")
						g.Expect(after).To(And(BeNumerically(">=", row.b), BeNumerically("<=", time.Minute)))
					}
				}
				stop()
				g.Expect(<-ended).To(Succeed())
			})
		})
	}
}
