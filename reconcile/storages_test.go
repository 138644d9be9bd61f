package reconcile_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// divided is an API server that keeps Events in a storage of their own, as kops
// sets it up. The resourceVersions of the two storages have nothing in common.
type divided struct {
	others, events *apisim.Server
	lose           string       // the answers to creations on this path are lost, three of them
	lost           atomic.Int32 // how many answers were lost
}

func newDivided(g Gomega) *divided {
	others, err := apisim.New(&apisim.Options{Incomplete: true})
	g.Expect(err).NotTo(HaveOccurred())
	events, err := apisim.New(&apisim.Options{Incomplete: true})
	g.Expect(err).NotTo(HaveOccurred())
	return &divided{others: others, events: events}
}

// config returns the config of a client that sees changes late.
func (d *divided) config() *rest.Config {
	others, events := d.others.Config("c"), d.events.Config("c")
	config := rest.CopyConfig(others)
	config.Transport = transport(func(r *http.Request) (*http.Response, error) {
		next := others.Transport
		if strings.HasSuffix(r.URL.Path, "/events") {
			next = events.Transport
		}
		answer, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if r.URL.Query().Get("watch") != "" {
			answer.Body = &lateBody{answer.Body, r.Context()}
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, d.lose) && d.lost.Add(1) <= 3 {
			err = answer.Body.Close()
			answer.StatusCode, answer.Body = http.StatusInternalServerError, io.NopCloser(strings.NewReader(
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`))
		}
		return answer, err
	})
	return config
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// lateBody delivers what it reads two seconds later.
type lateBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-time.After(2 * time.Second):
	case <-b.ctx.Done():
	}
	return n, err
}

// advance makes n changes, which no informer of the test sees.
func advance(g Gomega, server *apisim.Server, n int) {
	accounts := kubernetes.NewForConfigOrDie(server.Admin()).CoreV1().ServiceAccounts("x")
	for i := range n {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("a", i)}}
		_, err := accounts.Create(context.Background(), account, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
}

func TestTheVersionsOfEventsInAStorageOfTheirOwnAreNotComparedWithOthers(t *testing.T) {
	for _, ahead := range []string{"events", "others"} {
		for _, lose := range []string{"no path", "/events", "/secrets"} {
			t.Run(ahead+" ahead, lost answers of "+lose, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { divide(t, ahead, lose) })
			})
		}
	}
}

func divide(t *testing.T, ahead, lose string) {
	g := NewWithT(t)
	d := newDivided(g)
	d.lose = lose
	advance(g, map[string]*apisim.Server{"events": d.events, "others": d.others}[ahead], 1000)
	advance(g, map[string]*apisim.Server{"events": d.others, "others": d.events}[ahead], 2)
	c, err := cluster.New(d.config(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	core := c.Client().CoreV1()
	maps := informer.For(core.ConfigMaps(""), nil)
	secrets := informer.For(core.Secrets(""), nil)
	events := informer.For(core.Events(""), nil)
	of := func(name string) metav1.ObjectMeta { // a second creation would succeed
		return metav1.ObjectMeta{GenerateName: name + "-", Labels: map[string]string{"of": name}}
	}
	each := reconcile.Func[*corev1.ConfigMap](
		func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			hasSecret, hasEvent := false, false
			for s := range secrets.Snapshot().All() {
				hasSecret = hasSecret || s.Labels["of"] == r.Key.Name
			}
			for e := range events.Snapshot().All() {
				hasEvent = hasEvent || e.Labels["of"] == r.Key.Name
			}
			var err error
			if !hasSecret {
				_, err = core.Secrets("d").Create(ctx, &corev1.Secret{ObjectMeta: of(r.Key.Name)}, metav1.CreateOptions{})
			}
			if err == nil && !hasEvent {
				event := &corev1.Event{ObjectMeta: of(r.Key.Name), InvolvedObject: corev1.ObjectReference{Namespace: "d"}}
				_, err = core.Events("d").Create(ctx, event, metav1.CreateOptions{})
			}
			return reconcile.Result{}, err
		})
	controller, err := reconcile.New("c", maps, each, &reconcile.Options{Triggers: []reconcile.Trigger{
		reconcile.Mapped(secrets, func(_ context.Context, _, s *corev1.Secret) ([]reconcile.Key, error) {
			return []reconcile.Key{{Namespace: "d", Name: s.Labels["of"]}}, nil
		}),
		reconcile.Mapped(events, func(_ context.Context, old, e *corev1.Event) ([]reconcile.Key, error) {
			if e == nil {
				e = old
			}
			return []reconcile.Key{{Namespace: "d", Name: e.Labels["of"]}}, nil
		}),
	}})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	<-time.After(time.Minute)
	admin := kubernetes.NewForConfigOrDie(d.others.Admin()).CoreV1().ConfigMaps("d")
	for i := range 10 {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}}
		_, err := admin.Create(ctx, m, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		<-time.After(time.Second)
	}
	<-time.After(time.Minute)
	g.Expect(secrets.Status().Objects).To(Equal(10))
	g.Expect(events.Status().Objects).To(Equal(10))
	g.Expect(controller.Stats().Overdue).To(BeZero())

	g.Expect(d.events.Restore(2)).To(Succeed()) // of the Events alone
	<-time.After(3 * time.Minute)
	g.Expect(secrets.Status().Objects).To(Equal(10))
	g.Expect(events.Status().Objects).To(Equal(10), "they are made again")
	g.Expect(events.Status().Restores).To(BeEquivalentTo(1))
	for _, s := range []informer.Status{maps.Status(), secrets.Status()} {
		g.Expect(s.Restores).To(BeZero(), s.Name)
		g.Expect(s.Lists).To(BeEquivalentTo(1), s.Name)
	}
	cancel()
	g.Expect(<-ended).To(Succeed())
}
