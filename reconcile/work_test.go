package reconcile_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// loads returns the objects and the microseconds of each second that each slot costs, as replica a publishes them.
func (x *fleet) loads() (objects, busy map[int]int) {
	x.t.Helper()
	objects, busy = map[int]int{}, map[int]int{}
	lease, err := x.admin.CoordinationV1().Leases("default").Get(x.t.Context(), "fleet-member-a", metav1.GetOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	var published struct {
		Process string
		Slots   map[int]struct {
			Objects  int  `json:"o"`
			Busy     int  `json:"b"`
			Measured bool `json:"m"`
		}
	}
	x.Expect(json.Unmarshal([]byte(lease.Annotations["leader.homeostat.dev/load"]), &published)).To(Succeed())
	x.Expect(*lease.Spec.HolderIdentity).To(HavePrefix(published.Process + "."))
	for slot, load := range published.Slots {
		objects[slot] = load.Objects
		if load.Measured {
			busy[slot] = load.Busy
		}
	}
	return objects, busy
}

func TestAReplicaPublishesWhatItsShardsCost(t *testing.T) {
	inFleet(t, &apisim.Options{Shards: true}, func(x *fleet) {
		const all = 24
		x.create(all)
		x.options = func(m *member) *reconcile.Options {
			o := mapped(m)
			o.Resync = 10 * time.Second
			return o
		}
		x.takes = func(key reconcile.Key) time.Duration {
			if key.Namespace == namespace(3) {
				return time.Second
			}
			return 20 * time.Millisecond
		}
		x.join("a")
		pass(9 * time.Minute)
		objects, busy := x.loads()
		x.Expect(objects).To(HaveLen(16))
		x.Expect(busy).To(BeEmpty(), "they have not been measured long enough")
		pass(8 * time.Minute)
		objects, busy = x.loads()
		x.Expect(busy).To(HaveLen(16))
		cached, slow := 0, 0
		for slot, n := range objects {
			cached += n
			if busy[slot] > 50_000 {
				slow++
				x.Expect(busy[slot]).To(BeNumerically("~", 100_000+(n-1)*2000, 3000), "a second of ten")
			} else {
				x.Expect(busy[slot]).To(BeNumerically("~", n*2000, 300), "%d objects", n)
			}
		}
		x.Expect(cached).To(Equal(all))
		x.Expect(slow).To(Equal(1))
	})
}
