//go:build e2e

package clientgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

// events records the states that a handler has got, as JSON.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) note(states ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range states {
		text, _ := json.Marshal(s)
		e.all = append(e.all, string(text))
	}
}

func (e *events) OnAdd(obj any, _ bool) { e.note(obj) }
func (e *events) OnUpdate(old, obj any) { e.note(old, obj) }
func (e *events) OnDelete(obj any)      { e.note(obj) }

func (e *events) taken() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all
}

// On the API server, with its encodings and HTTP/2, handlers get the same
// states as from client-go's informer, and the specs are reused. No controller
// of the server writes Ingresses.
func TestE2EReusedSpecsAreTheServers(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	server, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	var by clientgo.Informers
	var noted [2]events
	for n, made := range []func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer{
		cache.NewSharedIndexInformer, by.New,
	} {
		config := rest.CopyConfig(server.Config())
		config.ContentType = runtime.ContentTypeProtobuf
		config.Wrap(clientgo.ReuseSpecs) // has no effect with client-go's informer
		client := kubernetes.NewForConfigOrDie(config)
		shared := made(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.NetworkingV1().Ingresses("").List(ctx, o)
			},
			WatchFuncWithContext: client.NetworkingV1().Ingresses("").Watch,
		}, client), &networkingv1.Ingress{}, 0, cache.Indexers{})
		_, err := shared.AddEventHandler(&noted[n])
		g.Expect(err).NotTo(HaveOccurred())
		var running sync.WaitGroup
		running.Go(func() { shared.RunWithContext(ctx) })
		t.Cleanup(running.Wait)
		g.Eventually(shared.HasSynced, time.Minute).Should(BeTrue())
	}

	ingresses := kubernetes.NewForConfigOrDie(server.Config()).NetworkingV1().Ingresses("default")
	const objects, changes = 5, 12
	for n := range objects {
		backend := &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}
		i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("i-", n)}}
		i.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: backend}
		i, err := ingresses.Create(ctx, i, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		for version := range changes {
			metav1.SetMetaDataAnnotation(&i.ObjectMeta, "version", fmt.Sprint(version))
			if version%4 == 0 {
				i.Spec.DefaultBackend.Service.Port.Number++
			}
			i, err = ingresses.Update(ctx, i, metav1.UpdateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		g.Expect(ingresses.Delete(ctx, i.Name, metav1.DeleteOptions{})).To(Succeed())
	}
	all := HaveLen(objects * (1 + 2*changes + 1))
	g.Eventually(noted[0].taken, time.Minute).Should(all)
	g.Eventually(noted[1].taken, time.Minute).Should(all)
	g.Expect(noted[1].taken()).To(Equal(noted[0].taken()))
	g.Expect(by.Status()[0].FullDecode).To(BeEmpty())
}
