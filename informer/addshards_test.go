package informer_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// The informer has synced for users of shards before, and one of them leaves in
// the meantime.
func TestAUserOfAllObjectsWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.createInEachShard(t.Context())
		d.run(t.Context())
		synctest.Wait()
		remove, err := d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		_, err = d.parts().AddShards(t.Context(), shardOf(2))
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(d.in.HasSynced()).To(BeTrue())

		whole, leave := context.WithCancel(t.Context())
		joined, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- d.in.Parts().RunWhole(whole, func() { close(joined) }) }()
		<-joined
		d.Expect(d.in.HasSynced()).To(BeFalse())
		d.Expect(d.in.Status().Reason).To(ContainSubstring("a user of the informer needs all objects"))
		remove(shardOf(1))
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d.Expect(d.in.WaitForSync(limited)).To(Succeed())
		d.Expect(d.cached()).To(HaveLen(shardCount))
		leave()
		d.Expect(<-done).To(Succeed())
		d.Expect(d.in.HasSynced()).To(BeTrue())
		d.Expect(d.cached()).To(Equal(d.stored(2)))
		d.stop()
	})
}

// A controller waits for its caches before it gets its first shard.
func TestWithoutShardsThereIsNothingToWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		joined, done := make(chan struct{}), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- d.parts().RunShards(ctx, func() { close(joined) }) }()
		<-joined
		limited, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		d.Expect(d.in.WaitForSync(limited)).To(Succeed())
		cancel()
		d.Expect(<-done).To(Succeed())
	})
}

// The informer counted as synced before this user joined, but only for the
// other users.
func TestAUserOfAllObjectsThatAsksAtOnceWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.createInEachShard(t.Context())
		d.run(t.Context())
		synctest.Wait()
		_, err := d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		whole, leave := context.WithCancel(t.Context())
		cached, done := make(chan int, 1), make(chan error, 1)
		go func() {
			done <- d.in.Parts().RunWhole(whole, func() {
				d.Expect(d.in.WaitForSync(canceled(t))).NotTo(Succeed())
				cached <- len(d.cached())
			})
		}()
		d.Expect(<-cached).To(Equal(1), "it has joined, and does not have all yet")
		limited, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		d.Expect(d.in.WaitForSync(limited)).To(Succeed())
		d.Expect(d.cached()).To(HaveLen(shardCount))
		leave()
		d.Expect(<-done).To(Succeed())
		d.stop()
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// The other users are synced with the objects that they need.
func TestAUserOfAllObjectsThatEndsBeforeItHasAllLeavesTheOthersSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.run(t.Context())
		synctest.Wait()
		_, err := d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		whole, leave := context.WithCancel(t.Context())
		joined, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- d.in.Parts().RunWhole(whole, func() { close(joined) }) }()
		<-joined
		d.Expect(d.in.HasSynced()).To(BeFalse())
		leave()
		d.Expect(<-done).To(Succeed())
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d.Expect(d.in.WaitForSync(limited)).To(Succeed())
		d.stop()
	})
}

func TestAddingShardsReturnsWhenTheHandlersHaveTheirObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.createInEachShard(t.Context())
		busy := make(chan struct{})
		d.in.Handle(func(e informer.Event[*corev1.ConfigMap]) {
			if e.Type == informer.Deleted {
				<-busy
			}
		})
		d.run(t.Context())
		synctest.Wait()
		remove, err := d.parts().AddShards(t.Context(), shardOf(0), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		go remove(shardOf(0)) // this goroutine calls the handlers for some time
		pass(time.Second)
		began := time.Now()
		time.AfterFunc(time.Minute, func() { close(busy) })
		_, err = d.parts().AddShards(t.Context(), shardOf(2))
		d.Expect(err).NotTo(HaveOccurred())
		d.mu.Lock()
		d.Expect(d.told).To(Equal(d.stored(1, 2)))
		d.mu.Unlock()
		d.Expect(time.Since(began)).To(BeNumerically(">=", time.Minute))
		d.stop()
	})
}

func TestAddingShardsEndsWithTheInformer(t *testing.T) {
	for name, begin := range map[string]func(ctx context.Context, d *divided){
		"while the first watch does not open": func(ctx context.Context, d *divided) {
			d.in = informer.For(d.behind(time.Hour).CoreV1().ConfigMaps(""), nil)
			d.run(ctx)
		},
		"while the watch is open for less than it has to be": func(ctx context.Context, d *divided) {
			d.run(ctx)
			synctest.Wait()
			_, err := d.parts().AddShards(ctx, shardOf(0))
			d.Expect(err).NotTo(HaveOccurred())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDivided(t, nil)
				begin(t.Context(), d)
				synctest.Wait()
				added := make(chan error, 1)
				go func() {
					_, err := d.parts().AddShards(t.Context(), shardOf(1))
					added <- err
				}()
				pass(100 * time.Millisecond)
				d.stop()
				pass(time.Second)
				d.Expect(added).To(Receive(MatchError(ContainSubstring("the informer is not running"))))
			})
		})
	}
}

// behind is a server whose lists show an old state, and whose watches open
// late.
type behind struct {
	http.RoundTripper
	mu   sync.Mutex // guards the list
	list []byte
	late time.Duration
}

// behind returns a client of a server that returns the lists of the first
// server, and opens watches after late.
func (d *divided) behind(late time.Duration) *kubernetes.Clientset {
	config := d.sim.Config("behind")
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &behind{RoundTripper: rt, late: late} })
	return kubernetes.NewForConfigOrDie(config)
}

func (b *behind) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("watch") != "" {
		select {
		case <-time.After(b.late):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
		return b.RoundTripper.RoundTrip(req)
	}
	if req.URL.Query().Get("resourceVersion") != "0" {
		return b.RoundTripper.RoundTrip(req)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	res, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	now, err := io.ReadAll(res.Body)
	if b.list == nil {
		b.list = now
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(b.list)), int64(len(b.list))
	return res, err
}

func TestTheFirstShardsHaveWhatIsThereWhenTheyAreAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, &apisim.Options{NoStreamingLists: true})
		of := d.behind(10 * time.Second).CoreV1().ConfigMaps("")
		_, err := of.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		d.Expect(err).NotTo(HaveOccurred())
		_, err = d.admin.CoreV1().ConfigMaps(namespacesOfShards[1][0]).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		d.Expect(err).NotTo(HaveOccurred())
		d.in = informer.For(of, nil)
		d.run(t.Context())
		synctest.Wait()
		_, err = d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(d.cached()).To(HaveLen(1))
		d.stop()
	})
}

// The server answers the first list from its newest state, so no second list is
// needed to compare it with.
func TestTheFirstShardsAreListedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		config, lists := d.sim.Config("c"), 0
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(req *http.Request) (*http.Response, error) {
				if req.URL.Query().Get("watch") == "" {
					lists++
				}
				return next.RoundTrip(req)
			})
		})
		_, err := d.admin.CoreV1().ConfigMaps(namespacesOfShards[1][0]).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		d.Expect(err).NotTo(HaveOccurred())
		d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		d.run(t.Context())
		synctest.Wait()
		_, err = d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(d.cached()).To(HaveLen(1))
		d.Expect(lists).To(BeZero(), "it was streamed")
		d.stop()
	})
}

// A page of a list is one piece of memory, so one retained object would keep
// the whole page.
func TestAReplacedObjectIsNotRetainedByOthersOfItsShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		of := d.admin.CoreV1().ConfigMaps(namespacesOfShards[1][0])
		for _, name := range []string{"a", "b"} {
			_, err := of.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			d.Expect(err).NotTo(HaveOccurred())
		}
		d.run(t.Context())
		synctest.Wait()
		for shard := range 2 { // the second is listed alongside the watch
			_, err := d.parts().AddShards(t.Context(), shardOf(shard))
			d.Expect(err).NotTo(HaveOccurred())
		}
		var objects []weak.Pointer[corev1.ConfigMap]
		for object := range d.in.Snapshot().All() {
			objects = append(objects, weak.Make(object))
		}
		d.Expect(objects).To(HaveLen(2))
		for n := range 3 { // what has been delivered may be retained until the next delivery
			_, err := of.Update(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"n": strconv.Itoa(n)},
			}, metav1.UpdateOptions{})
			d.Expect(err).NotTo(HaveOccurred())
			pass(time.Second)
		}
		for range 5 { // a goroutine beside the test may hold the object during one collection
			runtime.GC()
		}
		d.Expect(objects[0].Value()).To(BeNil(), "a")
		d.Expect(objects[1].Value()).NotTo(BeNil(), "b")
		d.stop()
	})
}

// If the informer ends while shards are being added, AddShards returns an
// error.
func TestShardsAreNotAddedToAnInformerThatEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.createInEachShard(t.Context())
		release, blocked := make(chan struct{}), false
		d.in.Handle(func(e informer.Event[*corev1.ConfigMap]) {
			if e.Type == informer.Updated {
				blocked = true
				<-release
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.parts().RunShards(ctx, nil) }()
		synctest.Wait()
		remove, err := d.parts().AddShards(t.Context(), shardOf(0))
		d.Expect(err).NotTo(HaveOccurred())
		of := d.admin.CoreV1().ConfigMaps(namespacesOfShards[0][0])
		_, err = of.Update(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"n": "1"},
		}, metav1.UpdateOptions{})
		d.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		d.Expect(blocked).To(BeTrue())
		go remove(shardOf(0)) // waits for the watch, which waits for the handler
		synctest.Wait()
		added := make(chan error, 1)
		go func() {
			_, err := d.parts().AddShards(t.Context(), shardOf(1))
			added <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		d.Expect(<-added).To(MatchError(ContainSubstring("the informer is not running")))
		d.Expect(<-done).To(Succeed())
		d.Expect(d.cached()).To(BeEmpty())
	})
}

// A list that shows how new the server is need not contain the objects that the
// cache does not keep.
func TestOnlyTheAddedShardsAreListedToBeTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDivided(t, &apisim.Options{Shards: true}), &asked{}
		config := d.sim.Config("c")
		config.Wrap(a.note)
		d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		d.createInEachShard(t.Context())
		d.run(t.Context())
		synctest.Wait()
		_, err := d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		before := len(a.lists)
		d.Expect(d.in.WaitForLatest(t.Context())).To(Succeed())
		d.Expect(a.lists[before:]).To(HaveLen(1))
		d.Expect(a.lists[before].Get("shardSelector")).To(Equal(rangesOf(1).Selector()))
		d.stop()
	})
}
