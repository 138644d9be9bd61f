package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/apisim"
)

// The replicas start in an empty cluster, so that their ranges are equal, and all namespaces that come are in one.
func TestRangesFollowTheNamespacesThatCome(t *testing.T) {
	for _, selects := range []bool{true, false} {
		t.Run(fmt.Sprint("server=", selects), func(t *testing.T) {
			inFleet(t, &apisim.Options{Shards: selects}, rangesFollow)
		})
	}
}

func rangesFollow(x *fleet) {
	const all = 99
	for _, name := range []string{"a", "b", "c"} {
		x.join(name)
	}
	pass(2 * time.Minute)
	x.create(all)
	pass(time.Minute)
	x.Expect(x.cached(all)).To(ConsistOf(0, 0, all), "they are all in one range")
	x.ledger.restart()
	value := 0
	for end := time.Now().Add(35 * time.Minute); time.Now().Before(end); pass(2 * time.Second) {
		value++
		x.set(value%all, fmt.Sprint(value))
		x.comeAndGo(value % (3 * all))
	}
	pass(10 * time.Second)
	for _, count := range x.cached(all) {
		x.Expect(count).To(BeNumerically("<=", 44), "a third, and more: further objects and the time of reconciles weigh, too")
	}
	config, err := x.admin.CoordinationV1().Leases("default").Get(x.t.Context(), "fleet", metav1.GetOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(config.Annotations["leader.homeostat.dev/ranges"]).To(
		MatchRegexp(`:\d+:2 `), "a later version")
	x.Expect(x.ledger.unseen()).To(BeZero())
	x.Expect(x.ledger.worst).To(BeNumerically("<=", 30*time.Second), "no key has had no owner for longer")
}
