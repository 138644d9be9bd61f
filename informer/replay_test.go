package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// does creates and deletes ConfigMaps of a shard. For example, "a+" creates a,
// and "a-" deletes it.
func (d *divided) does(ctx context.Context, shard int, changes ...string) {
	of := d.admin.CoreV1().ConfigMaps(namespacesOfShards[shard][0])
	for _, change := range changes {
		var err error
		if name := change[:1]; change[1] == '+' {
			_, err = of.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		} else {
			err = of.Delete(ctx, name, metav1.DeleteOptions{})
		}
		d.Expect(err).NotTo(HaveOccurred())
	}
}

func TestWhatWasDeletedBeforeAShardCameIsFound(t *testing.T) {
	for _, selects := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			d := newDivided(t, &apisim.Options{Shards: selects})
			d.does(ctx, 1, "a+", "b+", "c+")
			before, err := d.parts().ServerResourceVersion(ctx)
			d.Expect(err).NotTo(HaveOccurred())
			d.does(ctx, 1, "a-", "b-", "b+", "y+", "y-") // b was recreated, and y existed only for a moment
			d.does(ctx, 2, "a+", "a-")
			d.does(ctx, 3, "a+")

			found := func(rv string, shards ...int) (keys []string, err error) {
				for _, shard := range shards {
					err = d.parts().DeletedSince(ctx, rv, func(key types.NamespacedName) {
						keys = append(keys, fmt.Sprint(slices.Index(namespacesOfShards[shard], key.Namespace), key.Name))
					}, shardOf(shard))
				}
				return keys, err
			}
			_, err = found(before, 1)
			d.Expect(err).To(MatchError(ContainSubstring("looking for deleted objects of configmaps: the informer is not running")))
			d.run(ctx)
			synctest.Wait()
			_, err = d.parts().AddShards(ctx, shardOf(3))
			d.Expect(err).NotTo(HaveOccurred())
			_, err = d.parts().AddShards(ctx, shardOf(1))
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(found(before, 1)).To(Equal([]string{"0a", "0y"}))
			d.does(ctx, 1, "c-")
			pass(time.Second)
			d.Expect(found(before, 1)).To(ContainElements("0a", "0y"))
			now, err := d.parts().ServerResourceVersion(ctx)
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(found(now, 1)).To(BeEmpty())

			d.sim.Compact("configmaps")
			_, err = found(before, 1)
			d.Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "%v", err)
			d.stop()
		})
	}
}

// The watch is opened again until the server has delivered all past events. A
// server without such events ends the watch at its timeout.
func TestAWatchOfThePastThatBreaksIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d := newDivided(t, &apisim.Options{Shards: true})
		before, err := d.parts().ServerResourceVersion(ctx)
		d.Expect(err).NotTo(HaveOccurred())
		d.does(ctx, 1, "a+", "a-")
		d.does(ctx, 3, "a+")
		d.run(ctx)
		synctest.Wait()
		_, err = d.parts().AddShards(ctx, shardOf(1), shardOf(3))
		d.Expect(err).NotTo(HaveOccurred())
		began, found := time.Now(), 0
		faults := 3
		d.sim.Deny(func(c apisim.Call) error {
			if c.Verb == "watch" && faults > 0 {
				faults--
				return apierrors.NewInternalError(fmt.Errorf("fault %d", faults))
			}
			return nil
		})
		d.Expect(d.parts().DeletedSince(ctx, before, func(types.NamespacedName) { found++ }, shardOf(1))).To(Succeed())
		d.Expect(found).To(Equal(1))
		d.Expect(faults).To(BeZero())
		d.Expect(time.Since(began)).To(BeNumerically(">=", 10*time.Second), "nothing of shard 1 is as new as the cache")
		d.stop()
	})
}

func TestAWholeCacheShowsDeletionsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		in := informer.For(kubernetes.NewForConfigOrDie(d.sim.Config("c")).CoreV1().ConfigMaps(""), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- in.Run(ctx) }()
		d.does(ctx, 1, "a+", "a-", "b+")
		d.Expect(in.WaitForLatest(ctx)).To(Succeed())
		d.Expect(in.Parts().Shards().DeletedSince(ctx, "0", func(key types.NamespacedName) { t.Error(key) }, shardOf(1))).To(Succeed())
		cancel()
		d.Expect(<-done).To(Succeed())
	})
}

// A watch that ends with its connection may have missed deletions.
func TestAWatchOfThePastThatEndsTooEarlyIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d := newDivided(t, &apisim.Options{Shards: true})
		config, opened := d.sim.Config("c"), 0
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(req *http.Request) (*http.Response, error) {
				if query := req.URL.Query(); query.Get("watch") != "" && query.Get("timeoutSeconds") == "10" {
					if opened++; opened == 1 {
						return answered(req, http.StatusOK, "application/json", ""), nil
					}
				}
				return next.RoundTrip(req)
			})
		})
		d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		before, err := d.parts().ServerResourceVersion(ctx)
		d.Expect(err).NotTo(HaveOccurred())
		d.does(ctx, 1, "a+", "a-")
		d.does(ctx, 3, "a+")
		d.run(ctx)
		synctest.Wait()
		_, err = d.parts().AddShards(ctx, shardOf(1), shardOf(3))
		d.Expect(err).NotTo(HaveOccurred())
		found := 0
		d.Expect(d.parts().DeletedSince(ctx, before, func(types.NamespacedName) { found++ }, shardOf(1))).To(Succeed())
		d.Expect(found).To(Equal(1))
		d.stop()
	})
}

// A watch that the server does not end at its timeout may have missed
// deletions.
func TestAWatchOfThePastThatDoesNotEndIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d := newDivided(t, &apisim.Options{Shards: true})
		config, opened := d.sim.Config("c"), 0
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(req *http.Request) (*http.Response, error) {
				query := req.URL.Query()
				if query.Get("watch") != "" && query.Get("timeoutSeconds") == "10" {
					if opened++; opened == 1 {
						query.Del("timeoutSeconds")
						req = req.Clone(req.Context())
						req.URL.RawQuery = query.Encode()
					}
				}
				return next.RoundTrip(req)
			})
		})
		d.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		before, err := d.parts().ServerResourceVersion(ctx)
		d.Expect(err).NotTo(HaveOccurred())
		d.does(ctx, 1, "a+", "a-")
		d.does(ctx, 3, "a+")
		d.run(ctx)
		synctest.Wait()
		_, err = d.parts().AddShards(ctx, shardOf(1), shardOf(3))
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(d.parts().DeletedSince(ctx, before, func(types.NamespacedName) {}, shardOf(1))).To(Succeed())
		d.Expect(opened).To(Equal(2))
		d.stop()
	})
}

// There may be hundreds of thousands of objects, so they are not all listed.
func TestOneObjectIsListedToKnowHowNewTheServerIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDivided(t, nil), &asked{}
		config := d.sim.Config("c")
		config.Wrap(a.note)
		in := informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		_, err := in.Parts().Shards().ServerResourceVersion(t.Context())
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(a.lists).To(HaveLen(1))
		d.Expect(a.lists[0].Get("limit")).To(Equal("1"))
	})
}

// Deletions that the watch has not delivered by then may be missing.
func TestAWatchOfThePastThatIsGivenUpIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d := newDivided(t, &apisim.Options{Shards: true})
		before, err := d.parts().ServerResourceVersion(ctx)
		d.Expect(err).NotTo(HaveOccurred())
		d.does(ctx, 1, "a+", "a-")
		d.does(ctx, 3, "a+")
		d.run(ctx)
		synctest.Wait()
		_, err = d.parts().AddShards(ctx, shardOf(1), shardOf(3))
		d.Expect(err).NotTo(HaveOccurred())
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		d.Expect(d.parts().DeletedSince(limited, before, func(types.NamespacedName) {}, shardOf(1))).
			To(MatchError(context.DeadlineExceeded))
		d.stop()
	})
}
