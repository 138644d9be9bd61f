package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

type configMaps = typedcorev1.ConfigMapInterface

const mine = "example.com/mine"

// lateMaps is a client whose watch delivers every event late, once the first
// list is through.
type lateMaps struct {
	configMaps
	late time.Duration
}

func (l lateMaps) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	inner, err := l.configMaps.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return delayed(inner, l.late), nil
}

// The cache shows each object for a while after its last finalizer has been
// removed, and the answer to that has the resourceVersion that the cache has.
func TestALateCacheDoesNotCleanUpAgain(t *testing.T) {
	for name, client := range map[string]func(*WithT, *apisim.Server) kubernetes.Interface{
		"reported by Guard": func(_ *WithT, s *apisim.Server) kubernetes.Interface {
			return kubernetes.NewForConfigOrDie(s.Config("controller"))
		},
		"seen by the transport, too": func(g *WithT, s *apisim.Server) kubernetes.Interface {
			c, err := cluster.New(s.Config("controller"), nil)
			g.Expect(err).NotTo(HaveOccurred())
			return kubernetes.NewForConfigOrDie(c.Config())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server, err := apisim.New(nil)
				g.Expect(err).NotTo(HaveOccurred())
				maps := client(g, server).CoreV1().ConfigMaps
				const objects = 40
				for i := range objects {
					object := configMapNamed(fmt.Sprintf("m-%d", i))
					object.Finalizers = []string{mine}
					_, err := maps("d").Create(t.Context(), object, metav1.CreateOptions{})
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(maps("d").Delete(t.Context(), object.Name, metav1.DeleteOptions{})).To(Succeed())
				}
				w := &fixture{WithT: g, t: t, in: informer.For(lateMaps{maps("d"), 5 * time.Second}, nil)}
				finalizer := patch.Finalizer[*configMap, configMaps]{
					Name: mine, Client: maps, Clean: func(_ context.Context, o *configMap) error { w.ran(o.Name); return nil },
				}
				stop := w.start(nil, func(ctx context.Context, r request) (reconcile.Result, error) {
					object, ok := r.Object()
					if !ok {
						return nothing, nil
					}
					_, _, err := finalizer.Guard(ctx, object)
					return reconcile.After(time.Second), err
				})
				pass(time.Minute)
				g.Expect(w.reconciled()).To(HaveLen(objects))
				g.Expect(w.in.Snapshot().Len()).To(BeZero())
				g.Expect(stop()).To(Succeed())
			})
		})
	}
}
