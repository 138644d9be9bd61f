package leader_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/leader"
)

var _ = Describe("New", func() {
	good := func() leader.Lease {
		return leader.Lease{
			Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "test", Identity: "a",
		}
	}

	It("takes the defaults", func() {
		_, err := leader.New(good(), nil)
		Expect(err).NotTo(HaveOccurred())
	})

	It("derives the other durations from the lease duration", func() {
		_, err := leader.New(good(), &leader.Options{LeaseDuration: 3 * time.Second})
		Expect(err).NotTo(HaveOccurred())
	})

	It("names each missing field and the way out", func() {
		_, err := leader.New(leader.Lease{}, nil)
		Expect(err).To(MatchError(And(
			ContainSubstring("Lease.Client is empty: use clientset.CoordinationV1()"),
			ContainSubstring("Lease.Namespace is empty"),
			ContainSubstring("Lease.Name is empty"),
			ContainSubstring("Lease.Identity is empty"),
		)))
	})

	It("refuses an identity with white space", func() {
		lease := good()
		lease.Identity = "my pod"
		_, err := leader.New(lease, nil)
		Expect(err).To(MatchError(ContainSubstring(`Lease.Identity is "my pod": must not contain white space`)))
	})

	DescribeTable("refuses durations that break the trust window",
		func(o leader.Options, wants ...string) {
			_, err := leader.New(good(), &o)
			for _, want := range wants {
				Expect(err).To(MatchError(ContainSubstring(want)))
			}
		},
		Entry("a negative one", leader.Options{LeaseDuration: -1, DrainTimeout: -1},
			"Options.LeaseDuration is -1ns: must be more than 0s", "Options.DrainTimeout is -1ns"),
		Entry("no room for a late write", leader.Options{RenewDeadline: 12 * time.Second},
			"Options.RenewDeadline is 12s: with RequestTimeout 3s and 300ms for drift it must stay below "+
				"LeaseDuration 15s"),
		Entry("drift alone breaks it", leader.Options{RenewDeadline: 11700 * time.Millisecond},
			"Options.RenewDeadline is 11.7s"),
		Entry("no second try", leader.Options{RetryPeriod: 7 * time.Second},
			"Options.RetryPeriod is 7s: with RequestTimeout 3s it must stay below RenewDeadline 10s"),
	)
})
