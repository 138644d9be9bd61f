package reconcile_test

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/apisim"
)

// published returns how many objects a replica publishes that it has.
func (x *fleet) published(name string) int {
	x.t.Helper()
	lease, err := x.admin.CoordinationV1().Leases("default").Get(x.t.Context(), "fleet-member-"+name, metav1.GetOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	n, err := strconv.Atoi(lease.Annotations["leader.homeostat.dev/load"])
	x.Expect(err).NotTo(HaveOccurred())
	return n
}

func TestAReplicaPublishesHowManyObjectsItsShardsHave(t *testing.T) {
	inFleet(t, &apisim.Options{Shards: true}, func(x *fleet) {
		const all = 24
		x.create(all)
		x.join("a")
		x.join("b")
		pass(3 * time.Minute)
		x.Expect([]int{x.published("a"), x.published("b")}).To(ConsistOf(x.cached(all)))
		x.Expect(x.published("a") + x.published("b")).To(Equal(all))
	})
}
