//go:build e2e

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard/ranges"
	"github.com/homeostat/homeostat/reconcile"
)

const (
	e2eNamespaces = 60
	e2eWriters    = 4
	e2eWrites     = 200 // a second, of all writers
	e2eChurn      = 15 * time.Second
	// e2eSlow is how many keys are always being reconciled, so that slots that
	// move have some in flight.
	e2eSlow = 12
	// unowned is for how long no replica may have a key, by the simulation. On
	// a busy machine a reconcile is later by up to e2eLate.
	unowned = 30 * time.Second
	e2eLate = 15 * time.Second
	// e2eTwice is of how many writes one may lead to a second reconcile for
	// nothing: an event that comes while its key is taken from the queue, or
	// its slot is taken, does.
	e2eTwice = 100
)

// realFleet is replicas of one controller on a real API server.
type realFleet struct {
	*WithT

	t      *testing.T
	config *rest.Config
	ledger *ledger
}

// realReplica is one replica of a realFleet. When it is killed, it sends no
// further request.
type realReplica struct {
	in     *informer.Informer[*corev1.ConfigMap]
	killed atomic.Bool
	stop   context.CancelFunc
	done   chan error
}

// RoundTrip implements [http.RoundTripper].
func (r *realReplica) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if r.killed.Load() {
			return nil, errors.New("killed")
		}
		return next.RoundTrip(req)
	})
}

func (x *realFleet) join(name string) *realReplica {
	r := &realReplica{done: make(chan error, 1)}
	config := rest.CopyConfig(x.config)
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", ""
	config.Wrap(x.ledger.noting(name))
	config.Wrap(r.wrap)
	clientset := kubernetes.NewForConfigOrDie(config)
	shards, err := ranges.New(leader.Lease{
		Client: clientset.CoordinationV1(), Namespace: "default", Name: "fleet", Identity: name,
	}, nil)
	x.Expect(err).NotTo(HaveOccurred())
	r.in = informer.For(clientset.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "fleet=yes"})
	r.in.Handle(x.ledger.hears(name))
	c, err := reconcile.New("fleet", r.in, reconcile.Func[*corev1.ConfigMap](
		func(_ context.Context, request reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			x.reconcile(name, request)
			return reconcile.Result{}, nil
		}), &reconcile.Options{Shards: shards, Workers: e2eSlow})
	x.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(x.t.Context())
	r.stop = cancel
	go func() { r.done <- c.Run(ctx) }()
	return r
}

func (x *realFleet) reconcile(name string, r reconcile.Request[*corev1.ConfigMap]) {
	x.ledger.begin(r.Key, name)
	defer x.ledger.end(r.Key)
	<-time.After(takes(r.Key))
	if object, ok := r.Object(); ok {
		n, _ := strconv.Atoi(object.Data["n"])
		x.ledger.saw(r.Key, name, n)
	}
}

// takes returns how long a reconcile takes.
func takes(key reconcile.Key) time.Duration {
	for n := range e2eSlow {
		if key == keyOf(n*e2eNamespaces/e2eSlow) {
			return 4 * time.Second
		}
	}
	return time.Millisecond
}

func keyOf(n int) reconcile.Key {
	return reconcile.Key{Namespace: fmt.Sprintf("team-%02d", n), Name: "a"}
}

// churn writes until ctx ends. Each writer has keys of its own, whose values
// only grow.
func (x *realFleet) churn(ctx context.Context, client kubernetes.Interface) {
	var writing sync.WaitGroup
	for writer := range e2eWriters {
		writing.Go(func() {
			tick := time.NewTicker(e2eWriters * time.Second / e2eWrites)
			defer tick.Stop()
			for n := 1; ctx.Err() == nil; n++ {
				key := keyOf((e2eWriters*n + writer) % e2eNamespaces)
				x.ledger.writing(key, n)
				_, err := client.CoreV1().ConfigMaps(key.Namespace).Update(context.WithoutCancel(ctx), e2eObject(key, n), metav1.UpdateOptions{})
				x.Expect(err).NotTo(HaveOccurred())
				<-tick.C
			}
		})
	}
	writing.Wait()
}

func e2eObject(key reconcile.Key, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"fleet": "yes"}},
		Data:       map[string]string{"n": strconv.Itoa(n)},
	}
}

// cached returns how many objects the caches of the replicas have.
func cachedBy(replicas map[string]*realReplica) (all int, counts []int) {
	for _, r := range replicas {
		counts = append(counts, r.in.Snapshot().Len())
		all += counts[len(counts)-1]
	}
	return all, counts
}

// ranges returns the recorded ranges.
func (x *realFleet) ranges(client kubernetes.Interface) string {
	x.t.Helper()
	config, err := client.CoordinationV1().Leases("default").Get(x.t.Context(), "fleet", metav1.GetOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	return config.Annotations["leader.homeostat.dev/ranges"]
}

// scaleToZeroAndUp starts a replica when no other runs, and one namespace has
// become heavy.
func (x *realFleet) scaleToZeroAndUp(client kubernetes.Interface) {
	x.t.Helper()
	before := x.ranges(client)
	for n := range e2eNamespaces {
		object := e2eObject(keyOf(0), 0)
		object.Name = fmt.Sprint("heavy-", n)
		_, err := client.CoreV1().ConfigMaps(object.Namespace).Create(x.t.Context(), object, metav1.CreateOptions{})
		x.Expect(err).NotTo(HaveOccurred())
	}
	r := x.join("e")
	x.Eventually(func() int { return r.in.Snapshot().Len() }).
		WithTimeout(time.Minute).WithPolling(100 * time.Millisecond).Should(Equal(2 * e2eNamespaces))
	x.Expect(x.ranges(client)).NotTo(Equal(before))
	r.stop()
	x.Expect(<-r.done).To(Succeed())
}

func TestE2EEachReplicaCachesItsRangesOnly(t *testing.T) {
	for _, side := range []string{"server", "client"} {
		t.Run(side, func(t *testing.T) { inRealFleet(t, side) })
	}
}

func inRealFleet(t *testing.T, side string) {
	g := NewWithT(t)
	var flags []string
	switch older := slices.Contains([]string{"1.34", "1.35"}, os.Getenv("KUBERNETES")); {
	case !older:
		flags = []string{fmt.Sprintf("kube-apiserver:--feature-gates=ShardedListAndWatch=%v", side == "server")}
	case side == "server":
		t.Skip("servers before Kubernetes 1.36 have no ShardedListAndWatch")
	}
	c, err := e2e.Start(t.Context(), &e2e.Options{Flags: flags})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = c.Stop() }) // a busy machine may have to kill it
	x := &realFleet{WithT: g, t: t, config: c.Config(), ledger: newLedger()}
	client := kubernetes.NewForConfigOrDie(c.Config())
	for n := range e2eNamespaces {
		key := keyOf(n)
		_, err := client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().ConfigMaps(key.Namespace).Create(t.Context(), e2eObject(key, 0), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	replicas := map[string]*realReplica{}
	settled := func() {
		t.Helper()
		g.Eventually(func() bool {
			all, counts := cachedBy(replicas)
			most := 0
			for _, n := range counts {
				most = max(most, n)
			}
			return all == e2eNamespaces && 10*most*len(counts) <= 13*e2eNamespaces
		}).WithTimeout(2*time.Minute).WithPolling(100*time.Millisecond).Should(BeTrue(), func() string {
			_, counts := cachedBy(replicas)
			return fmt.Sprint("each object is with one replica, and each has its share: ", counts)
		})
	}
	for _, name := range []string{"a", "b", "c"} {
		replicas[name] = x.join(name)
	}
	settled()
	x.ledger.restart() // at the start the slots move to and fro
	churning, end := context.WithCancel(t.Context())
	began, churned := time.Now(), make(chan struct{})
	go func() { defer close(churned); x.churn(churning, client) }()
	<-time.After(e2eChurn)
	replicas["d"] = x.join("d")
	settled()
	dead := replicas["b"]
	dead.killed.Store(true)
	dead.stop()
	delete(replicas, "b")
	settled()
	<-time.After(e2eChurn)
	end()
	<-churned
	lasted := time.Since(began)
	g.Eventually(x.ledger.unseen).WithTimeout(time.Minute).Should(BeZero(), "every change has been reconciled")
	for name, r := range replicas {
		s := r.in.Status()
		g.Expect(s.ShardFilter).To(Equal(side))
		g.Expect(s.Lists).To(BeEquivalentTo(1), "%s has not listed again what stayed", name)
		r.stop()
		g.Expect(<-r.done).To(Succeed())
	}
	<-dead.done
	l := x.ledger
	l.mu.Lock()
	t.Logf("%d writes, %.0f a second, %d reconciles, %d for nothing; longest from a write to its reconcile: %v",
		l.writes, float64(l.writes)/lasted.Seconds(), l.reconciles, len(l.twice), l.worst)
	g.Expect(l.faults).To(BeEmpty())
	g.Expect(len(l.twice)).To(BeNumerically("<=", l.writes/e2eTwice), "once for each change")
	g.Expect(l.worst).To(BeNumerically("<", unowned+e2eLate))
	g.Expect(l.reconciles).To(BeNumerically("<=", l.writes+5*e2eNamespaces), "once for a change, and for each new owner")
	l.mu.Unlock()
	x.scaleToZeroAndUp(client)
}
