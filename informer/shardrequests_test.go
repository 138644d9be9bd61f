package informer_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A caller may remove its shards after the run has ended, when the next run
// already has other shards.
func TestRemovingTheShardsOfAnEndedRunLeavesTheNextRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, &apisim.Options{Shards: true})
		d.createInEachShard(t.Context())
		var removes []func()
		for range 2 {
			d.run(t.Context())
			synctest.Wait()
			remove, err := d.parts().AddShards(t.Context(), shardOf(1), shardOf(2))
			d.Expect(err).NotTo(HaveOccurred())
			removes = append(removes, func() { remove(shardOf(1), shardOf(2)) })
			if len(removes) == 1 {
				d.stop()
			}
		}
		removes[0]()
		d.Expect(d.cached()).To(Equal(d.stored(1, 2)))
		d.stop()
		removes[1]()
		d.Expect(d.in.Status().Divided).To(BeFalse())
	})
}

// While the first shards are being listed again, the cache has not reached any
// resourceVersion.
func TestTheMarkOfShardsThatHaveGoneIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		config, held := d.sim.Config("c"), false
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(req *http.Request) (*http.Response, error) {
				if held {
					return silent(req)
				}
				return next.RoundTrip(req)
			})
		})
		d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		d.run(t.Context())
		synctest.Wait()
		remove, err := d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(d.in.LastResourceVersion()).NotTo(BeEmpty())
		remove(shardOf(1))
		held = true
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { _, _ = d.parts().AddShards(limited, shardOf(1)) }()
		synctest.Wait()
		d.Expect(d.in.LastResourceVersion()).To(BeEmpty())
		<-limited.Done()
		d.stop()
	})
}

// A list that is not streamed shows whether the server or the client leaves out
// the objects of other shards.
func TestAPlainListSaysWhoSelects(t *testing.T) {
	for side, selects := range map[string]bool{"server": true, "client": false} {
		synctest.Test(t, func(t *testing.T) {
			d := newDivided(t, &apisim.Options{Shards: selects, NoStreamingLists: true})
			d.run(t.Context())
			synctest.Wait()
			_, err := d.parts().AddShards(t.Context(), shardOf(1))
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(d.in.Status().ShardFilter).To(Equal(side))
			d.stop()
		})
	}
}

// Requests for shards select the informer's scope and these shards.
func TestRequestsForShardsSelect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDivided(t, &apisim.Options{Shards: true}), &asked{}
		config := d.sim.Config("c")
		config.Wrap(a.note)
		of := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("")
		d.in = informer.For(of, &informer.Options{LabelSelector: "a=b", PageSize: 7})
		d.createInEachShard(t.Context())
		d.run(t.Context())
		synctest.Wait()
		for shard := range 2 {
			_, err := d.parts().AddShards(t.Context(), shardOf(shard))
			d.Expect(err).NotTo(HaveOccurred())
		}
		d.Expect(d.cached()).To(BeEmpty())
		d.Expect(a.lists).To(HaveLen(1), "beside the watch")
		d.Expect(a.lists[0].Get("limit")).To(Equal("7"))
		d.does(t.Context(), 1, "b+")
		d.Expect(d.parts().DeletedSince(t.Context(), "1", nil, shardOf(1))).To(Succeed())
		past := a.watches[len(a.watches)-1]
		d.Expect(past.Get("timeoutSeconds")).To(Equal("10"))
		for _, query := range append(a.lists, past) {
			d.Expect(query.Get("labelSelector")).To(Equal("a=b"))
			d.Expect(query.Get("shardSelector")).To(Equal(rangesOf(1).Selector()))
		}
		d.stop()
	})
}

// Objects of other shards are received but not transformed, even if the client
// decodes them.
func TestObjectsOfOtherShardsAreNotTransformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.createInEachShard(t.Context())
		maps := dynamic.NewForConfigOrDie(d.sim.Config("c")).Resource(configMaps)
		transformed := map[string]int{}
		in := informer.For(informer.Untyped(maps), &informer.Options{
			Scope:     "namespace",
			Transform: func(object informer.Object) { transformed[object.GetNamespace()]++ },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- in.Parts().Shards().RunShards(ctx, nil) }()
		synctest.Wait()
		_, err := in.Parts().Shards().AddShards(ctx, shardOf(0))
		d.Expect(err).NotTo(HaveOccurred())
		clear(transformed)
		_, err = in.Parts().Shards().AddShards(ctx, shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(transformed).To(HaveLen(1), "what is listed beside the watch")
		d.Expect(in.Snapshot().Len()).To(Equal(2))
		cancel()
		d.Expect(<-done).To(Succeed())
	})
}

// Pages take memory until their objects are stored.
func TestPagesAreNotListedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDivided(t, &apisim.Options{Shards: true}), &asked{}
		config := d.sim.Config("c")
		config.Wrap(a.note)
		most := 0
		d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), &informer.Options{
			PageSize: 1,
			Transform: func(object informer.Object) {
				if object.GetNamespace() == namespacesOfShards[1][0] && most == 0 {
					<-time.After(time.Second)
					_, most = a.since(0, 0)
				}
			},
		})
		for _, name := range "abcdefgh" {
			_, err := d.admin.CoreV1().ConfigMaps(namespacesOfShards[1][0]).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: string(name)}}, metav1.CreateOptions{})
			d.Expect(err).NotTo(HaveOccurred())
		}
		d.run(t.Context())
		synctest.Wait()
		for shard := range 2 {
			_, err := d.parts().AddShards(t.Context(), shardOf(shard))
			d.Expect(err).NotTo(HaveOccurred())
		}
		d.Expect(a.lists).To(HaveLen(8))
		d.Expect(most).To(BeNumerically("<=", 2), "one is at work, and the next has come")
		d.stop()
	})
}

// The stream that breaks would have been as new as the server. The list that
// replaces it is answered from the server's cache.
func TestTheFirstShardsAreTheLatestAfterAStreamThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		config := d.sim.Config("behind")
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			old := &behind{RoundTripper: next, late: 10 * time.Second}
			return transportFunc(func(req *http.Request) (*http.Response, error) {
				if req.URL.Query().Get("sendInitialEvents") == "" {
					return old.RoundTrip(req)
				}
				answer := answered(req, http.StatusOK, "application/json", "")
				answer.Body = io.NopCloser(ending{req.Context()}) // the body delivers no data
				return answer, nil
			})
		})
		of := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("")
		_, err := of.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		d.Expect(err).NotTo(HaveOccurred())
		d.does(t.Context(), 1, "a+")
		d.in = informer.For(of, nil)
		d.run(t.Context())
		synctest.Wait()
		_, err = d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(d.cached()).To(HaveLen(1))
		d.stop()
	})
}

// Handlers have seen the objects of the last run. A run of shards begins
// without objects, and delivers the deletions.
func TestShardsBeginWithoutWhatAWholeRunHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.createInEachShard(t.Context())
		stop := running(t.Context(), d.in)
		d.Expect(d.in.WaitForSync(t.Context())).To(Succeed())
		stop()
		d.Expect(d.told).To(HaveLen(shardCount))
		d.run(t.Context())
		synctest.Wait()
		d.Expect(d.cached()).To(BeEmpty())
		d.Expect(d.told).To(BeEmpty())
		d.stop()
	})
}
