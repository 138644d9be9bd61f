package names_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgo "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/names"
)

var _ = Describe("Live", func() {
	It("tells what is there from what is gone", func(ctx SpecContext) {
		services := fake.NewClientset(service("a", nil)).CoreV1().Services("default")
		a, ok, err := names.Live(ctx, services, "a")
		Expect(err).NotTo(HaveOccurred())
		Expect(ok).To(BeTrue())
		Expect(a.Name).To(Equal("a"))
		b, ok, err := names.Live(ctx, services, "b")
		Expect(err).NotTo(HaveOccurred())
		Expect(ok).To(BeFalse())
		Expect(b).To(BeNil())
	})

	It("never calls an error gone", func(ctx SpecContext) {
		client := fake.NewClientset()
		broken := errors.New("connection refused")
		client.PrependReactor("get", "services", func(clientgo.Action) (bool, runtime.Object, error) {
			return true, nil, broken
		})
		_, _, err := names.Live(ctx, client.CoreV1().Services("default"), "a")
		Expect(err).To(MatchError(broken))
	})
})
