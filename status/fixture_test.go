package status_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// hostile is a name that no API server would accept, but that a page must be
// able to show.
const hostile = `<script>alert("x")</script>&'`

// secret is in objects, and must not be shown.
const secret = "hunter2"

func object(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "d", Name: name, Annotations: map[string]string{"password": secret}}
}

// fixture is a process with two controllers on a fake API server. One
// controller has keys in every state, and the other may not read its cache.
type fixture struct {
	controllers []*reconcile.Controller
	release     chan struct{} // lets the reconcile of "slow" end
}

// leading is a leader election that this replica wins after electionTime. By
// then all keys of the first lists are in the queue, and are merged there.
// Reconciles that began earlier would be repeated or not, depending on the
// scheduler.
type leading struct{}

// aeon bounds the back-off. It is so long that a random back-off of a few
// seconds occurs once in a million runs.
const aeon = 1000 * time.Hour

// electionTime is how long an election takes.
const electionTime = time.Second

func (leading) Run(ctx context.Context, fn func(context.Context) error) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(electionTime):
		return fn(ctx)
	}
}
func (leading) String() string { return "replica-1 leads" }
func (leading) Ready() error   { return nil }
func (leading) Healthy() error { return nil }

// sharing divides the keys into slots, one of which belongs to this replica.
type sharing struct{}

func (sharing) Run(ctx context.Context, _ func(context.Context, int) error) error {
	<-ctx.Done()
	return nil
}
func (sharing) Slot(reconcile.Key) int { return 0 }
func (sharing) String() string         { return "1 of 4 slots here" }
func (sharing) Ready() error           { return nil }
func (sharing) Healthy() error         { return nil }

func (sharing) Owners() ([]inspect.SlotStatus, float64) {
	return []inspect.SlotStatus{
		{State: inspect.Here, Owner: "a", Since: time.Now().Add(-time.Minute)},
		{State: inspect.Elsewhere, Owner: hostile, Since: time.Now().Add(-time.Hour), Weight: 0.613, Heavy: "team-a"},
		{State: inspect.Claimable},
		{State: inspect.Unavailable, Owner: "c"},
	}, 1.72
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	g := NewWithT(t)
	var objects []runtime.Object
	for _, name := range []string{"slow", "broken", "hopeless", "later", "unseen", "fine", "also-fine", hostile} {
		objects = append(objects, &corev1.ConfigMap{ObjectMeta: object(name), Data: map[string]string{"key": secret}})
	}
	objects = append(objects, &corev1.Secret{ObjectMeta: object("token")})
	client := fake.NewClientset(objects...)
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("nodes is forbidden: no role allows it " + hostile)
	})
	s := &fixture{release: make(chan struct{})}

	maps := informer.For(client.CoreV1().ConfigMaps("d"), nil)
	secrets := informer.For(client.CoreV1().Secrets("d"), nil)
	deployments := informer.For(client.AppsV1().Deployments("d"), nil)
	nodes := informer.For(client.CoreV1().Nodes(), nil)
	config, err := reconcile.New("rollout", maps, reconcile.Func[*corev1.ConfigMap](s.reconcile), &reconcile.Options{
		Leader: leading{}, Backoff: queue.Backoff{Base: aeon, Cap: aeon}, FreshnessDeadline: time.Minute,
		Triggers: []reconcile.Trigger{
			reconcile.Owned(deployments),
			reconcile.Mapped(secrets, func(context.Context, *corev1.Secret, *corev1.Secret) ([]reconcile.Key, error) {
				return []reconcile.Key{{Namespace: "d", Name: "slow"}}, nil
			}),
		},
		Known: names.Func(func(context.Context) ([]names.Name, error) { return nil, errors.New("no such command") }),
	})
	g.Expect(err).NotTo(HaveOccurred())
	node, err := reconcile.New("drain", nodes, reconcile.Func[*corev1.Node](
		func(context.Context, reconcile.Request[*corev1.Node]) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}), &reconcile.Options{Shards: sharing{}, Triggers: []reconcile.Trigger{
		reconcile.Owned(maps), reconcile.Owned(informer.For(client.CoreV1().ConfigMaps("e"), nil)),
	}})
	g.Expect(err).NotTo(HaveOccurred())
	s.controllers = []*reconcile.Controller{config, node}
	return s
}

func (s *fixture) reconcile(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
	reconcile.Wrote(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}})
	switch r.Key.Name {
	case "slow":
		<-s.release
	case "broken", hostile:
		return reconcile.Result{}, fmt.Errorf("patching %q: <b>the server</b> is busy\n%s", r.Key.Name, secret)
	case "hopeless":
		return reconcile.Result{}, reconcile.Terminal(errors.New("spec.replicas contradicts spec.paused"))
	case "later":
		return reconcile.After(10 * time.Minute), nil
	case "unseen":
		reconcile.Wrote(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", ResourceVersion: "99999"}})
		reconcile.Wrote(ctx, &corev1.Event{})
		return reconcile.After(time.Second), nil
	}
	return reconcile.Result{}, nil
}

// run runs the controllers until stop is called.
func (s *fixture) run(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- reconcile.RunAll(ctx, s.controllers...) }()
	return func() {
		close(s.release)
		cancel()
		<-ended
	}
}
