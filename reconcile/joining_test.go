package reconcile_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// forbidding answers requests as a server that forbids them.
type forbidding struct {
	http.RoundTripper
	refuses *atomic.Bool
}

func (r forbidding) RoundTrip(request *http.Request) (*http.Response, error) {
	if !r.refuses.Load() {
		return r.RoundTripper.RoundTrip(request)
	}
	return &http.Response{
		StatusCode: http.StatusForbidden, Body: http.NoBody, Header: http.Header{}, Request: request,
	}, nil
}

// A replica that may not list the objects would never work on its slots.
func TestAReplicaThatMayNotListWhatItCachesTakesNoSlots(t *testing.T) {
	inFleet(t, nil, func(x *fleet) {
		const all = 16
		x.create(all)
		x.join("b")
		pass(time.Minute)
		var refuses atomic.Bool
		refuses.Store(true)
		config := x.sim.Config("a")
		config.Wrap(func(to http.RoundTripper) http.RoundTripper { return forbidding{to, &refuses} })
		a := x.joinWith("a", config)
		pass(2 * time.Minute)
		x.Expect(x.members["b"].secrets.Snapshot().Len()).To(Equal(all), "it has all slots")
		x.Expect(a.LeaderReady()).To(MatchError(ContainSubstring("secrets")))
		refuses.Store(false)
		pass(2 * time.Minute)
		x.Expect(a.LeaderReady()).To(Succeed())
		x.Expect(x.cached(all)).To(HaveEach(BeNumerically(">", 0)))

		refuses.Store(true)
		x.kill("b")
		pass(time.Minute)
		x.Expect(a.LeaderReady()).To(Succeed(), "others stop for a moment, too")
		pass(2 * time.Minute)
		x.Expect(a.LeaderReady()).To(MatchError(ContainSubstring("they have not been listed within 1m0s")))
		refuses.Store(false)
		pass(2 * time.Minute)
		x.Expect(a.LeaderReady()).To(Succeed())
		x.Expect(x.cached(all)).To(Equal([]int{all}))
	})
}

// Another controller needs a shard of the same cache, which has synced for that
// one.
func TestAControllerWithoutShardsBeginsWithAWholeCache(t *testing.T) {
	inFleet(t, nil, func(x *fleet) {
		x.create(8)
		in := informer.For(kubernetes.NewForConfigOrDie(x.sim.Config("c")).CoreV1().ConfigMaps(""), nil)
		ctx, cancel := context.WithCancel(x.t.Context())
		var running sync.WaitGroup
		running.Go(func() { x.Expect(in.Parts().Shards().RunShards(ctx, nil)).To(Succeed()) })
		pass(time.Second)
		of := keyspace.Of(namespace(3))
		_, err := in.Parts().Shards().AddShards(ctx, sharding.ShardRangeRequirement(keyspace.Range{First: of, Last: of}.Requirement()))
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(in.HasSynced()).To(BeTrue())
		fewest := 8
		c, err := reconcile.New("whole", in, reconcile.Func[*configMap](
			func(context.Context, request) (reconcile.Result, error) {
				x.mu.Lock()
				defer x.mu.Unlock()
				fewest = min(fewest, in.Snapshot().Len())
				return nothing, nil
			}), nil)
		x.Expect(err).NotTo(HaveOccurred())
		running.Go(func() { x.Expect(c.Run(ctx)).To(Succeed()) })
		pass(time.Minute)
		cancel()
		running.Wait()
		x.Expect(c.Stats().Reconciles[inspect.Succeeded]).To(BeNumerically(">=", 8))
		x.Expect(fewest).To(Equal(8))
	})
}
