package informer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/keyspace"
	shardslots "github.com/homeostat/homeostat/internal/slots"
)

// divided is an informer of the ConfigMaps of some shards, and the events that
// its handler has received.
type divided struct {
	*WithT

	sim     *apisim.Server
	admin   *kubernetes.Clientset
	in      *informer.Informer[*corev1.ConfigMap]
	stop    func()
	mu      sync.Mutex // guards the fields below
	told    map[types.NamespacedName]string
	removes map[int]func() // by shard
	asked   map[int]context.CancelFunc
	faults  []string
}

// shardCount is the number of equal ranges in the tests of shards.
const shardCount = 8

// shardOf returns the n-th of these ranges. Three namespaces of the tests are
// in each range.
func shardOf(n int) sharding.ShardRangeRequirement {
	const size = 1 << 61
	return sharding.ShardRangeRequirement(keyspace.Range{First: uint64(n) * size, Last: uint64(n)*size + size - 1}.Requirement())
}

//nolint:gochecknoglobals // a table
var namespacesOfShards = func() (in [shardCount][]string) {
	for n := 0; slices.ContainsFunc(in[:], func(of []string) bool { return len(of) < 3 }); n++ {
		// Similar names have similar hashes: the number comes first.
		name := fmt.Sprintf("%d-team", n)
		shard := keyspace.Of(name) >> 61
		if len(in[shard]) < 3 {
			in[shard] = append(in[shard], name)
		}
	}
	return in
}()

func newDivided(t *testing.T, o *apisim.Options) *divided {
	t.Helper()
	g := NewWithT(t)
	sim, err := apisim.New(o)
	g.Expect(err).NotTo(HaveOccurred())
	d := &divided{
		WithT: g, sim: sim, admin: kubernetes.NewForConfigOrDie(sim.Admin()),
		told: map[types.NamespacedName]string{}, removes: map[int]func(){}, asked: map[int]context.CancelFunc{},
	}
	d.in = informer.For(kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps(""), &informer.Options{PageSize: 2})
	d.in.Handle(d.hear)
	return d
}

// createInEachShard creates one object in a namespace of each shard.
func (d *divided) createInEachShard(ctx context.Context) {
	for shard := range shardCount {
		_, err := d.admin.CoreV1().ConfigMaps(namespacesOfShards[shard][0]).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		d.Expect(err).NotTo(HaveOccurred())
	}
}

// parts are the methods for shards.
func (d *divided) parts() shardslots.Cache { return d.in.Parts().Shards() }

func (d *divided) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- d.parts().RunShards(ctx, nil) }()
	d.stop = func() {
		cancel()
		d.Expect(<-done).To(Succeed())
	}
}

func (d *divided) hear(e informer.Event[*corev1.ConfigMap]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Type {
	case informer.Added:
		key := types.NamespacedName{Namespace: e.New.Namespace, Name: e.New.Name}
		if _, known := d.told[key]; known {
			d.faults = append(d.faults, fmt.Sprint(key, " was added twice"))
		}
		d.told[key] = e.New.ResourceVersion
	case informer.Updated:
		key := types.NamespacedName{Namespace: e.New.Namespace, Name: e.New.Name}
		if number(e.New.ResourceVersion) <= number(d.told[key]) {
			d.faults = append(d.faults, fmt.Sprint(key, " went back"))
		}
		d.told[key] = e.New.ResourceVersion
	case informer.Deleted:
		delete(d.told, types.NamespacedName{Namespace: e.Old.Namespace, Name: e.Old.Name})
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func number(rv string) int {
	n, _ := strconv.Atoi(rv)
	return n
}

// cached returns the resourceVersions of the cache.
func (d *divided) cached() map[types.NamespacedName]string {
	have := map[types.NamespacedName]string{}
	for cm := range d.in.Snapshot().All() {
		have[types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name}] = cm.ResourceVersion
	}
	return have
}

// stored returns the server's objects in some shards.
func (d *divided) stored(shards ...int) map[types.NamespacedName]string {
	have := map[types.NamespacedName]string{}
	for _, o := range d.sim.Objects(corev1.SchemeGroupVersion.WithResource("configmaps")) {
		if slices.Contains(shards, int(keyspace.Of(o.GetNamespace())>>61)) {
			have[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o.GetResourceVersion()
		}
	}
	return have
}

// add adds a shard in the background. When that is done, the cache must have
// the objects that existed at the call.
func (d *divided) add(ctx context.Context, shard int) {
	ctx, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	d.asked[shard] = cancel
	d.mu.Unlock()
	before := d.stored(shard)
	go func() {
		remove, err := d.parts().AddShards(ctx, shardOf(shard))
		after, cached := d.stored(shard), d.cached()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.asked, shard)
		if err != nil {
			return
		}
		d.removes[shard] = func() { remove(shardOf(shard)) }
		for key, rv := range before {
			switch has, ok := cached[key]; {
			case after[key] == rv && !ok:
				d.faults = append(d.faults, fmt.Sprintf("%v was there before shard %d was added, and is not cached", key, shard))
			case ok && number(has) < number(rv):
				d.faults = append(d.faults, fmt.Sprintf("%v is cached at %s, and was at %s before shard %d was added", key, has, rv, shard))
			}
		}
	}()
}

func (d *divided) shards() (have []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.removes))
}

func (d *divided) write(ctx context.Context, random *rand.Rand) {
	namespace := namespacesOfShards[random.IntN(shardCount)][random.IntN(3)]
	of := d.admin.CoreV1().ConfigMaps(namespace)
	name := string("abc"[random.IntN(3)])
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": fmt.Sprint(random.Int())},
	}
	switch random.IntN(3) {
	case 0:
		_ = of.Delete(ctx, name, metav1.DeleteOptions{})
	case 1:
		_, _ = of.Update(ctx, cm, metav1.UpdateOptions{})
	default:
		_, _ = of.Create(ctx, cm, metav1.CreateOptions{})
	}
}

// change adds a shard, removes one, or cancels the addition of one.
func (d *divided) change(ctx context.Context, random *rand.Rand) {
	shard := random.IntN(shardCount)
	d.mu.Lock()
	remove, has := d.removes[shard]
	cancel, asking := d.asked[shard]
	delete(d.removes, shard)
	d.mu.Unlock()
	switch {
	case has:
		remove()
	case asking:
		if random.IntN(3) == 0 {
			cancel()
		}
	default:
		d.add(ctx, shard)
	}
}

func TestShardsOfAnInformer(t *testing.T) {
	for _, selects := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d := newDivided(t, &apisim.Options{Shards: selects})
			d.createInEachShard(t.Context())
			_, err := d.parts().AddShards(t.Context(), shardOf(0))
			d.Expect(err).To(MatchError(ContainSubstring("adding shards to the informer of configmaps: the informer is not running")))
			_, err = d.parts().AddShards(t.Context(), sharding.ShardRangeRequirement{Key: "object.metadata.uid"})
			d.Expect(err).To(MatchError(ContainSubstring(`must be "object.metadata.namespace"`)))
			counts, err := d.parts().CountNamespaces(t.Context())
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(counts).To(HaveLen(shardCount))
			d.Expect(counts).To(HaveKeyWithValue(namespacesOfShards[3][0], 1))

			d.run(t.Context())
			synctest.Wait()
			d.Expect(d.in.HasSynced()).To(BeTrue(), "there is nothing to wait for")
			d.Expect(d.cached()).To(BeEmpty())
			key := types.NamespacedName{Namespace: namespacesOfShards[2][0], Name: "a"}
			d.Expect(d.in.Parts().InScope(key)).To(BeFalse())

			remove, err := d.parts().AddShards(t.Context(), shardOf(1), shardOf(2))
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(d.cached()).To(Equal(d.stored(1, 2)))
			d.Expect(d.in.Parts().InScope(key)).To(BeTrue())
			again, err := d.parts().AddShards(t.Context(), shardOf(2), shardOf(3))
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(d.cached()).To(Equal(d.stored(1, 2, 3)))
			side := "client"
			if selects {
				side = "server"
			}
			status := d.in.Status()
			d.Expect(status.Divided).To(BeTrue())
			d.Expect(status.ShardFilter).To(Equal(side))
			d.Expect(status.Lists).To(BeEquivalentTo(1), "of the first shards")
			remove(shardOf(2))
			d.Expect(d.cached()).To(Equal(d.stored(1, 2, 3)), "another call keeps it")
			again(shardOf(2), shardOf(3))
			d.Expect(d.cached()).To(Equal(d.stored(1)))
			d.Expect(d.told).To(Equal(d.stored(1)), "deletions are delivered before it returns")
			d.Expect(d.in.Parts().InScope(key)).To(BeFalse())

			whole, leave := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- d.in.Run(whole) }()
			pass(10 * time.Second)
			d.Expect(d.in.HasSynced()).To(BeTrue())
			d.Expect(d.cached()).To(HaveLen(shardCount), "a user of all makes it whole")
			leave()
			d.Expect(<-done).To(Succeed())
			d.Expect(d.cached()).To(Equal(d.stored(1)))
			d.stop()
			d.Expect(d.in.Status().Divided).To(BeFalse())
		})
	}
}

// A client does not say whether its kind has namespaces: objects without one
// are in each shard.
func TestObjectsOfAKindOfUnknownScopeMayHaveNoNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(&apisim.Options{Shards: true})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().Nodes().Create(t.Context(), node("a"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		nodes := dynamic.NewForConfigOrDie(sim.Config("c")).Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
		in := informer.For(informer.Untyped(nodes), &informer.Options{Kind: "Node"})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- in.Parts().Shards().RunShards(ctx, nil) }()
		synctest.Wait()
		other := (int(keyspace.Of("")>>61) + 1) % shardCount
		_, err = in.Parts().Shards().AddShards(ctx, shardOf(other))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(in.Status().Divided).To(BeTrue())
		g.Expect(keys(in)).To(Equal([]string{"/a"}))
		cancel()
		g.Expect(<-done).To(Succeed())
	})
}

// An informer that cannot be divided keeps all objects.
func TestInformersThatCannotBeDividedKeepAllObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		clientset := kubernetes.NewForConfigOrDie(sim.Config("c"))
		for _, name := range []string{"a", "b"} {
			_, err := clientset.CoreV1().ConfigMaps(name).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		for _, in := range []*informer.Informer[*corev1.ConfigMap]{
			informer.For(clientset.CoreV1().ConfigMaps(""), &informer.Options{Whole: true}),
			informer.For(clientset.CoreV1().ConfigMaps(""), &informer.Options{Scope: "root"}),
			informer.For(fake.NewClientset(
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a"}},
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "b"}},
			).CoreV1().ConfigMaps(""), nil),
			informer.ForNamespaces(clientset.CoreV1().ConfigMaps, nil),
			informer.ForNamespaces(clientset.CoreV1().ConfigMaps, &informer.Options{Namespaces: []string{"a", "b"}}),
		} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- in.Parts().Shards().RunShards(ctx, nil) }()
			g.Expect(in.WaitForSync(ctx)).To(Succeed())
			g.Expect(in.Status().Divided).To(BeFalse())
			g.Expect(in.Snapshot().Len()).To(Equal(2))
			remove, err := in.Parts().Shards().AddShards(ctx, shardOf(0))
			g.Expect(err).NotTo(HaveOccurred())
			remove(shardOf(0))
			g.Expect(in.Snapshot().Len()).To(Equal(2))
			cancel()
			g.Expect(<-done).To(Succeed())
		}
	})
}

// At rest, the cache has exactly the server's objects of the added shards,
// regardless of the order of events and lists. Handlers have received the same
// objects, and no older state has been delivered after a newer one.
func TestShardsComeAndGoBesideTheWatch(t *testing.T) {
	seeds := 30
	if testing.Short() {
		seeds = 5
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) { shardsComeAndGo(t, seed) })
	}
}

func shardsComeAndGo(t *testing.T, seed uint64) {
	d := newDivided(t, &apisim.Options{Shards: seed%2 == 0, NoStreamingLists: seed%3 == 0})
	random := rand.New(rand.NewPCG(seed, 3))
	schedule := d.sim.Schedule(0)
	defer schedule.Stop()
	d.run(t.Context())
	writes, changes := 80, 25
	schedule.Add(&apisim.Extra{Name: "write", Enabled: func() bool { return writes > 0 }, Do: func() {
		writes--
		d.write(t.Context(), random)
	}})
	schedule.Add(&apisim.Extra{Name: "change", Enabled: func() bool { return changes > 0 }, Do: func() {
		changes--
		d.change(t.Context(), random)
	}})
	odds := apisim.Odds{Bookmark: 0.1, Wait: 0.1, MaxWait: 2 * time.Second}
	if seed%5 > 0 {
		odds.Drop, odds.Fault = 0.05, 0.1
		odds.Faults = []apisim.Fault{apisim.Internal, apisim.Unreachable, apisim.Throttled, apisim.Expired}
	}
	policy := apisim.NewRandom(seed, odds)
	schedule.Run(policy, apisim.Limits{
		Steps: 5000, Horizon: 5 * time.Minute, Stop: func() bool { return writes+changes == 0 },
	})
	policy.Calm(true)
	outcome := schedule.Run(policy, apisim.Limits{Steps: 5000, Horizon: 5 * time.Minute})
	trace := func() string { return fmt.Sprintf("seed %d\n%s", seed, strings.Join(schedule.Trace(), "\n")) }
	d.Expect(outcome).To(Equal(apisim.Quiescent), trace)
	d.mu.Lock()
	d.Expect(d.asked).To(BeEmpty(), trace)
	d.Expect(d.faults).To(BeEmpty(), trace)
	d.mu.Unlock()
	d.Expect(d.cached()).To(Equal(d.stored(d.shards()...)), trace)
	d.Expect(d.told).To(Equal(d.cached()), trace)
	schedule.Stop()
	d.stop()
	d.Expect(d.cached()).To(BeEmpty(), "the shards ended with the run")
	d.Expect(d.told).To(BeEmpty())
}

// The objects existed before, but were not in the first list. Initial is true
// only for objects that every user waits for.
func TestObjectsOfMoreShardsAreDeliveredAsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.createInEachShard(t.Context())
		var initial []bool
		d.in.Handle(func(e informer.Event[*corev1.ConfigMap]) { initial = append(initial, e.Initial) })
		d.run(t.Context())
		synctest.Wait()
		for shard := range 2 {
			_, err := d.parts().AddShards(t.Context(), shardOf(shard))
			d.Expect(err).NotTo(HaveOccurred())
		}
		d.Expect(initial).To(Equal([]bool{true, false}))
		d.stop()
	})
}

// WaitForSync returns when every handler has the objects of all shards.
func TestAUserOfAllObjectsWaitsForTheHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.createInEachShard(t.Context())
		heard := 0
		d.in.Handle(func(informer.Event[*corev1.ConfigMap]) {
			<-time.After(time.Second)
			heard++
		})
		d.run(t.Context())
		synctest.Wait()
		_, err := d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		whole, leave := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- d.in.Parts().RunWhole(whole, func() {
				go func() {
					defer leave()
					d.Expect(d.in.WaitForSync(whole)).To(Succeed())
					d.Expect(heard).To(Equal(shardCount))
				}()
			})
		}()
		d.Expect(<-done).To(Succeed())
		d.stop()
	})
}

// Objects without a namespace, and objects of the only namespace that a client
// reads, belong to every shard. Otherwise other replicas would lack them.
func TestInformersThatCannotBeDivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(&apisim.Options{Shards: true})
		g.Expect(err).NotTo(HaveOccurred())
		clientset := kubernetes.NewForConfigOrDie(sim.Config("c"))
		untyped := dynamic.NewForConfigOrDie(sim.Config("c"))
		_, err = clientset.CoreV1().Nodes().Create(t.Context(), node("a"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		a := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		_, err = clientset.CoreV1().ConfigMaps("a").Create(t.Context(), a, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactory(clientset, 0)
		defer factory.Shutdown()
		defer cancel()
		shared := factory.Core().V1().ConfigMaps().Informer()
		factory.Start(ctx.Done())
		staysWhole(t, informer.For(clientset.CoreV1().Nodes(), nil))
		staysWhole(t, informer.For(clientset.CoreV1().ConfigMaps("a"), nil))
		staysWhole(t, informer.For(informer.Untyped(untyped.Resource(configMaps).Namespace("a")), nil))
		staysWhole(t, clientgo.Wrap[*corev1.ConfigMap](shared, nil))
	})
}

// staysWhole runs an informer of one object without shards.
func staysWhole[T informer.Object](t *testing.T, in *informer.Informer[T]) {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- in.Parts().Shards().RunShards(ctx, nil) }()
	g.Expect(in.WaitForSync(ctx)).To(Succeed())
	g.Expect(in.Status().Divided).To(BeFalse())
	g.Expect(in.Snapshot().Len()).To(Equal(1))
	cancel()
	g.Expect(<-done).To(Succeed())
}
