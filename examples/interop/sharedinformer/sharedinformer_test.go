package sharedinformer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/examples/interop/sharedinformer"
)

func TestOneWatchFeedsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Annotations: map[string]string{"example.com/exposed": "true"}},
		})
		counted := 0
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- sharedinformer.Run(ctx, client, func() { counted++ }) }()
		<-time.After(time.Second)
		synctest.Wait()

		verbs := map[string]int{}
		for _, action := range client.Actions() {
			verbs[action.GetVerb()]++
		}
		g.Expect(verbs).To(Equal(map[string]int{"list": 1, "watch": 1, "patch": 2}))
		services, err := client.CoreV1().Services("shop").List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(services.Items).To(HaveExactElements(
			HaveField("Annotations", BeEmpty()), HaveField("Annotations", HaveKeyWithValue("example.com/exposed", "true"))))
		g.Expect(counted).To(Equal(2))
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}
