package apisim_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// leaseAt returns a Lease that was renewed at the given time. It also has a
// time as text in an annotation whose name is not the name of a time.
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

// If the times were from different clocks, a Pod would seem to have run for a
// longer or a shorter time than it has.
func TestAllTimesOfAPodAndANodeAreOfOneClock(t *testing.T) {
	g := gomega.NewWithT(t)
	const ahead = 45 * time.Second
	sim, err := apisim.New(&apisim.Options{Skew: func(client string) time.Duration {
		return map[string]time.Duration{"late": ahead}[client]
	}})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	late, other := kubernetes.NewForConfigOrDie(sim.Config("late")), kubernetes.NewForConfigOrDie(sim.Config("other"))
	at := metav1.NewTime(time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC))
	_, err = other.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	node, err := late.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(node.Spec.Taints[0].TimeAdded.Time).To(gomega.BeTemporally("==", at.Add(ahead)))

	pod, err := other.CoreV1().Pods("d").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	ended := &corev1.ContainerStateTerminated{StartedAt: at, FinishedAt: metav1.NewTime(at.Add(time.Minute))}
	pod.Status.StartTime = &at
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: ended}}}
	_, err = other.CoreV1().Pods("d").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	pod, err = late.CoreV1().Pods("d").Get(t.Context(), "p", metav1.GetOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	seen := pod.Status.ContainerStatuses[0].State.Terminated
	g.Expect(pod.Status.StartTime.Time).To(gomega.BeTemporally("==", at.Add(ahead)))
	g.Expect(seen.StartedAt.Time).To(gomega.BeTemporally("==", at.Add(ahead)))
	g.Expect(seen.FinishedAt.Time).To(gomega.BeTemporally("==", at.Add(ahead+time.Minute)))
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
