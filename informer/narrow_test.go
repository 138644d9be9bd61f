package informer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// asked records the requests of an informer.
type asked struct {
	mu             sync.Mutex // guards the fields below
	lists, watches []url.Values
}

func (a *asked) note(next http.RoundTripper) http.RoundTripper {
	return transportFunc(func(req *http.Request) (*http.Response, error) {
		query := req.URL.Query()
		a.mu.Lock()
		if query.Get("watch") == "" {
			a.lists = append(a.lists, query)
		} else {
			a.watches = append(a.watches, query)
		}
		a.mu.Unlock()
		return next.RoundTrip(req)
	})
}

// since returns the watches that were opened after the first n, and how many
// lists there were after the first m.
func (a *asked) since(watches, lists int) (after []url.Values, listed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watches[watches:], len(a.lists) - lists
}

// Soon after shards were removed, their events are no longer received.
func TestAWatchIsNarrowedWhenShardsHaveGone(t *testing.T) {
	for name, selects := range map[string]bool{"the server selects": true, "the client selects": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { narrows(t, selects) })
		})
	}
}

func narrows(t *testing.T, selects bool) {
	d, a := newDivided(t, &apisim.Options{Shards: selects}), &asked{}
	config := d.sim.Config("c")
	config.Wrap(a.note)
	d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
	var updates []string
	d.in.Handle(d.hear)
	d.in.Handle(func(e informer.Event[*corev1.ConfigMap]) {
		if e.Type == informer.Updated {
			updates = append(updates, e.New.Data["n"])
		}
	})
	write := func(ctx context.Context, shard int, n string) {
		of := d.admin.CoreV1().ConfigMaps(namespacesOfShards[shard][0])
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"n": n}}
		_, err := of.Update(ctx, object, metav1.UpdateOptions{})
		if err != nil {
			_, err = of.Create(ctx, object, metav1.CreateOptions{})
		}
		d.Expect(err).NotTo(HaveOccurred())
	}
	for shard := range 3 {
		write(t.Context(), shard, "0")
	}
	d.run(t.Context())
	synctest.Wait()
	remove, err := d.parts().AddShards(t.Context(), shardOf(0), shardOf(1))
	d.Expect(err).NotTo(HaveOccurred())
	_, err = d.parts().AddShards(t.Context(), shardOf(2)) // so that a list shows who selects
	d.Expect(err).NotTo(HaveOccurred())
	pass(time.Minute)
	opened, listed := a.since(0, 0)

	remove(shardOf(1))
	var want []string
	for n := 1; n <= 100; n++ { // before, while and after it is narrowed
		write(t.Context(), 2*(n%2), strconv.Itoa(n))
		write(t.Context(), 1, strconv.Itoa(-n))
		want = append(want, strconv.Itoa(n))
		pass(50 * time.Millisecond)
	}
	pass(time.Minute)
	again, more := a.since(len(opened), listed)
	d.Expect(more).To(BeZero(), "nothing is listed again")
	d.Expect(updates).To(Equal(want), "each event once")
	d.Expect(d.faults).To(BeEmpty())
	d.Expect(d.cached()).To(Equal(d.stored(0, 2)))
	if !selects {
		d.Expect(again).To(BeEmpty(), "the watch delivers everything anyway")
		d.stop()
		return
	}
	d.Expect(again).To(HaveLen(1))
	d.Expect(again[0].Get("shardSelector")).To(Equal(rangesOf(0, 2).Selector()))
	d.Expect(again[0].Has("sendInitialEvents")).To(BeFalse(), "it goes on where it was")
	d.stop()
}

// The first list may be a streaming list, which does not show whether the
// server selects by shard.
func TestTheFirstNarrowingAsksWhetherTheServerSelects(t *testing.T) {
	for name, selects := range map[string]bool{"the server selects": true, "the client selects": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, a := newDivided(t, &apisim.Options{Shards: selects}), &asked{}
				config := d.sim.Config("c")
				config.Wrap(a.note)
				d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
				d.run(t.Context())
				synctest.Wait()
				remove, err := d.parts().AddShards(t.Context(), shardOf(0), shardOf(1), shardOf(2))
				d.Expect(err).NotTo(HaveOccurred())
				pass(time.Minute)
				opened, listed := a.since(0, 0)
				d.Expect(listed).To(BeZero(), "it was streamed")
				for n, shard := range []int{0, 1} {
					remove(shardOf(shard))
					pass(time.Minute)
					again, more := a.since(len(opened), 0)
					d.Expect(more).To(Equal(1), "it asks once")
					d.Expect(a.lists[0].Get("limit")).To(Equal("1"))
					if selects {
						d.Expect(again).To(HaveLen(n + 1))
					} else {
						d.Expect(again).To(BeEmpty(), "the watch would deliver everything again")
					}
				}
				d.stop()
			})
		})
	}
}

// A watch that has just been opened is left open for a moment. Otherwise the
// reflector would list all objects again.
func TestAWatchIsNotNarrowedTooSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDivided(t, &apisim.Options{Shards: true}), &asked{}
		config := d.sim.Config("c")
		config.Wrap(a.note)
		d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		d.run(t.Context())
		synctest.Wait()
		remove, err := d.parts().AddShards(t.Context(), shardOf(0), shardOf(1), shardOf(3))
		d.Expect(err).NotTo(HaveOccurred())
		pass(time.Minute)
		remove(shardOf(1)) // it would be narrowed in 2 s
		pass(1300 * time.Millisecond)
		added := make(chan error, 1)
		go func() {
			_, err := d.parts().AddShards(t.Context(), shardOf(2)) // opens it again, with 0, 2 and 3
			added <- err
		}()
		pass(400 * time.Millisecond)
		d.Expect(<-added).To(Succeed())
		remove(shardOf(3))
		opened, listed := a.since(0, 0)
		pass(time.Minute)
		again, more := a.since(len(opened), listed)
		d.Expect(more).To(BeZero(), "nothing is listed again")
		d.Expect(again).To(HaveLen(1))
		d.Expect(again[0].Get("shardSelector")).To(Equal(rangesOf(0, 2).Selector()))
		d.Expect(again[0].Has("sendInitialEvents")).To(BeFalse(), "nothing is streamed again")
		d.stop()
	})
}

// back is an informer whose watch is opened again because shard 1 was removed.
type back struct {
	*divided

	requests *asked
	remove   func()
	// slow is how long a request takes, and expired says that the next watch is
	// answered with 410.
	slow    atomic.Int64
	expired atomic.Bool
}

func newBack(t *testing.T, o *apisim.Options) *back {
	t.Helper()
	b := &back{divided: newDivided(t, o), requests: &asked{}}
	config := b.sim.Config("c")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transportFunc(func(req *http.Request) (*http.Response, error) {
			select {
			case <-time.After(max(1, time.Duration(b.slow.Load()))):
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
			if req.URL.Query().Get("watch") != "" && b.expired.CompareAndSwap(true, false) {
				body, err := json.Marshal(failure(http.StatusGone, metav1.StatusReasonExpired))
				return &http.Response{
					StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(bytes.NewReader(body)), Request: req,
				}, err
			}
			return next.RoundTrip(req)
		})
	})
	config.Wrap(b.requests.note)
	b.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
	b.in.Handle(b.hear)
	b.write(t.Context(), "0")
	b.run(t.Context())
	synctest.Wait()
	remove, err := b.parts().AddShards(t.Context(), shardOf(0), shardOf(1))
	b.Expect(err).NotTo(HaveOccurred())
	b.remove = func() { remove(shardOf(1)) }
	_, err = b.parts().AddShards(t.Context(), shardOf(2))
	b.Expect(err).NotTo(HaveOccurred())
	pass(time.Minute)
	return b
}

// write writes an object of shard 1.
func (b *back) write(ctx context.Context, n string) {
	of := b.admin.CoreV1().ConfigMaps(namespacesOfShards[1][0])
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"n": n}}
	_, err := of.Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		_, err = of.Create(ctx, object, metav1.CreateOptions{})
	}
	b.Expect(err).NotTo(HaveOccurred())
}

// comeBack adds shard 1 again in the background.
func (b *back) comeBack(ctx context.Context) (added chan error) {
	added = make(chan error, 1)
	go func() {
		_, err := b.parts().AddShards(ctx, shardOf(1))
		added <- err
	}()
	return added
}

// hasAll writes again, and expects all objects in the cache.
func (b *back) hasAll(ctx context.Context) {
	b.Expect(b.cached()).To(Equal(b.stored(0, 1, 2)))
	b.write(ctx, "after")
	pass(time.Second)
	b.Expect(b.cached()).To(Equal(b.stored(0, 1, 2)))
	b.Expect(b.faults).To(BeEmpty())
	b.stop()
}

// At that time the watch that included the shard has been stopped, and the next
// watch was requested without the shard.
func TestAShardThatComesBackWhileTheWatchIsOpenedWithoutItGetsItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBack(t, &apisim.Options{Shards: true})
		b.slow.Store(int64(300 * time.Millisecond))
		b.remove()
		pass(2100 * time.Millisecond)
		added := b.comeBack(t.Context())
		pass(time.Minute)
		b.Expect(<-added).To(Succeed())
		b.hasAll(t.Context())
	})
}

func TestAShardThatComesBackSoonCostsNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBack(t, &apisim.Options{Shards: true})
		opened, _ := b.requests.since(0, 0)
		b.remove()
		pass(1900 * time.Millisecond)
		b.Expect(<-b.comeBack(t.Context())).To(Succeed())
		pass(time.Minute)
		again, _ := b.requests.since(len(opened), 0)
		b.Expect(again).To(BeEmpty())
		b.hasAll(t.Context())
	})
}

// Events that the next watch does not deliver must be in the list before it.
func TestAShardThatComesBackWhileEverythingIsListedAgainGetsItsEvents(t *testing.T) {
	for name, o := range map[string]*apisim.Options{
		"streamed": {Shards: true}, "listed": {Shards: true, NoStreamingLists: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBack(t, o)
				b.slow.Store(int64(300 * time.Millisecond))
				b.expired.Store(true)
				opened, listed := b.requests.since(0, 0)
				b.remove()
				for range 1000 { // until everything is being listed
					pass(10 * time.Millisecond)
					again, more := b.requests.since(len(opened), listed)
					if more > 0 || !o.NoStreamingLists && len(again) > 1 {
						break
					}
				}
				b.Expect(b.expired.Load()).To(BeFalse())
				b.slow.Store(1) // the list is on its way, and what comes now overtakes it
				added := b.comeBack(t.Context())
				synctest.Wait()
				pass(100 * time.Millisecond)
				b.write(t.Context(), "meanwhile")
				pass(time.Minute)
				b.Expect(<-added).To(Succeed())
				b.hasAll(t.Context())
			})
		})
	}
}

// The addition waits until a watch is open, but no longer than its caller
// waits.
func TestAShardThatComesBackWhileTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBack(t, &apisim.Options{Shards: true})
		b.remove()
		pass(1900 * time.Millisecond)
		b.slow.Store(int64(time.Hour))
		pass(200 * time.Millisecond)
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.Expect(<-b.comeBack(limited)).To(MatchError(context.DeadlineExceeded))
		added := b.comeBack(t.Context())
		pass(time.Minute)
		b.Expect(added).NotTo(Receive())
		b.slow.Store(0)
		pass(5 * time.Minute)
		b.Expect(added).To(Receive(Succeed()))
		b.hasAll(t.Context())
	})
}

// stalled is the body of a watch over a connection that is stalled: it is not
// closed before its request ends.
type stalled struct {
	io.ReadCloser

	request context.Context //nolint:containedctx // the context of the request
}

func (s stalled) Close() error {
	<-s.request.Done()
	return s.ReadCloser.Close()
}

// Such a watch is narrowed, too, and no list is sent for that.
func TestAWatchEndsThatIsNotClosedBeforeItsRequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDivided(t, &apisim.Options{Shards: true}), &asked{}
		config := d.sim.Config("c")
		config.Wrap(a.note)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(req *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(req)
				if err == nil && req.URL.Query().Get("watch") != "" {
					answer.Body = stalled{answer.Body, req.Context()}
				}
				return answer, err
			})
		})
		d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		d.run(t.Context())
		synctest.Wait()
		remove, err := d.parts().AddShards(t.Context(), shardOf(0), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		pass(time.Minute)
		opened, listed := a.since(0, 0)
		remove(shardOf(1))
		pass(10 * time.Second)
		again, more := a.since(len(opened), listed)
		d.Expect(again).To(HaveLen(1))
		d.Expect(again[0].Has("sendInitialEvents")).To(BeFalse(), "it goes on where it was")
		d.Expect(more).To(Equal(1), "it asks whether the server selects")
		d.stop()
	})
}

func rangesOf(shards ...int) (set keyspace.Set) {
	for _, n := range shards {
		r, _, _ := keyspace.Parse(keyspace.Requirement(shardOf(n)))
		set = keyspace.Union(set, keyspace.Set{r})
	}
	return set
}
