package apisim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
)

// The server stores built-in kinds in protobuf, which cannot distinguish an
// empty list from a missing one.
func TestAnEmptyListOfABuiltInKindIsNone(t *testing.T) {
	g := gomega.NewWithT(t)
	sim, err := apisim.New(&apisim.Options{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	client := kubernetes.NewForConfigOrDie(sim.Admin()).DiscoveryV1().EndpointSlices("default")
	made, err := client.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}}, Ports: []discoveryv1.EndpointPort{},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(made.Ports).To(gomega.BeNil())
	g.Expect(made.Endpoints).To(gomega.HaveLen(1))

	made.Ports = []discoveryv1.EndpointPort{}
	same, err := client.Update(t.Context(), made, metav1.UpdateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(same.Ports).To(gomega.BeNil())
	g.Expect(same.ResourceVersion).To(gomega.Equal(made.ResourceVersion), "nothing has changed")
}

// Drivers list the slices of their node, and their own slices.
func TestResourceSlicesAreSelectedByNodeAndDriver(t *testing.T) {
	g := gomega.NewWithT(t)
	sim, err := apisim.New(&apisim.Options{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	client := kubernetes.NewForConfigOrDie(sim.Admin()).ResourceV1().ResourceSlices()
	for name, node := range map[string]string{"here": "n", "there": "m"} {
		_, err := client.Create(t.Context(), &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
			},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
	}
	list, err := client.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.driver=gpu.example.com,spec.nodeName=n"})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(list.Items).To(gomega.HaveLen(1))
	g.Expect(list.Items[0].Name).To(gomega.Equal("here"))
}

// An apply that changes no field is never a write. This includes an apply of
// stringData, which the stored Secret does not have.
func TestALaterApplyOfTheSameDataIsNotAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		sim, err := apisim.New(&apisim.Options{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		client := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().Secrets("default")
		apply := func(value string) *corev1.Secret {
			config := applycorev1.Secret("a", "default").WithStringData(map[string]string{"x": value})
			s, err := client.Apply(t.Context(), config, metav1.ApplyOptions{FieldManager: "m", Force: true})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			<-time.After(2 * time.Second)
			return s
		}
		first, same := apply("1"), apply("1")
		g.Expect(same.ResourceVersion).To(gomega.Equal(first.ResourceVersion))
		g.Expect(same.ManagedFields).To(gomega.Equal(first.ManagedFields), "its time, too")
		other := apply("2")
		g.Expect(other.Data).To(gomega.HaveKeyWithValue("x", []byte("2")))
		g.Expect(other.ResourceVersion).NotTo(gomega.Equal(first.ResourceVersion))
		g.Expect(other.ManagedFields[0].Time.Time).To(gomega.BeTemporally(">", first.ManagedFields[0].Time.Time))
	})
}
