package apisim_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// leaseAt returns a Lease that was renewed at a time, with a time as a text in
// an annotation whose name is no name of a time.
func leaseAt(renewed time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: "l", Annotations: map[string]string{"version": "2001-02-03T04:05:06Z"},
		},
		Spec: coordinationv1.LeaseSpec{RenewTime: &at},
	}
}

func TestAClientHasAClockOfItsOwn(t *testing.T) {
	g := gomega.NewWithT(t)
	const ahead = 2 * time.Hour
	sim, err := apisim.New(&apisim.Options{Skew: func(client string) time.Duration {
		if client == "late" {
			return ahead
		}
		return 0
	}})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	late := kubernetes.NewForConfigOrDie(sim.Config("late")).CoordinationV1().Leases("d")
	other := kubernetes.NewForConfigOrDie(sim.Config("other")).CoordinationV1().Leases("d")
	events, err := late.Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer events.Stop()
	at := time.Date(2020, 1, 1, 12, 0, 0, 123456000, time.UTC)
	made, err := late.Create(t.Context(), leaseAt(at), metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(made.Spec.RenewTime.Time).To(gomega.BeTemporally("==", at), "it reads what it has written")

	have, err := other.Get(t.Context(), "l", metav1.GetOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(have.Spec.RenewTime.Time).To(gomega.BeTemporally("==", at.Add(-ahead)))
	g.Expect(made.CreationTimestamp.Time).To(gomega.BeTemporally("==", have.CreationTimestamp.Add(ahead)))
	g.Expect(have.Annotations).To(gomega.Equal(made.Annotations), "only the names of times are times")
	seen := (<-events.ResultChan()).Object.(*coordinationv1.Lease)
	g.Expect(seen.Spec.RenewTime.Time).To(gomega.BeTemporally("==", at))

	_, err = late.Patch(t.Context(), "l", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/renewTime","value":"2020-01-01T13:00:00.000000Z"}]`), metav1.PatchOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	have, err = other.Get(t.Context(), "l", metav1.GetOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(have.Spec.RenewTime.Time).To(gomega.BeTemporally("==", at.Truncate(time.Hour).Add(time.Hour-ahead)))
}

func TestTheDateOfAnAnswerIsOfTheServersClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"the same clock": 0, "another clock": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			sim, err := apisim.New(&apisim.Options{Skew: func(string) time.Duration { return ahead }})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			client, err := rest.HTTPClientFor(sim.Config("c"))
			g.Expect(err).NotTo(gomega.HaveOccurred())
			resp, err := client.Get("http://apisim/api/v1/namespaces")
			g.Expect(err).NotTo(gomega.HaveOccurred())
			defer func() { _ = resp.Body.Close() }()
			date, err := http.ParseTime(resp.Header.Get("Date"))
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(date).To(gomega.BeTemporally("~", time.Now().Add(ahead), time.Minute))
		})
	}
}
