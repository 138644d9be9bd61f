package patch_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

type podClients = func(namespace string) typedcorev1.PodInterface

// podWrites are all functions that write a cached object.
var podWrites = map[string]func(ctx context.Context, of podClients, pod *corev1.Pod) error{
	"Merge": func(ctx context.Context, of podClients, pod *corev1.Pod) error {
		_, err := patch.Merge(ctx, of, pod, nil, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "wrong" })
		return err
	},
	"Status": func(ctx context.Context, of podClients, pod *corev1.Pod) error {
		_, err := patch.Status(ctx, of, pod, nil, func(p *corev1.Pod) { p.Status.Reason = "wrong" })
		return err
	},
	"Ensure": func(ctx context.Context, of podClients, pod *corev1.Pod) error {
		_, err := patch.Ensure(ctx, of, pod, nil, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "wrong" })
		return err
	},
	"Apply": func(ctx context.Context, of podClients, pod *corev1.Pod) error {
		_, err := patch.NewApplier(of).Apply(ctx, pod, nil,
			corev1apply.Pod(pod.Name, pod.Namespace).WithLabels(map[string]string{"wrong": "yes"}))
		return err
	},
	"Apply of the status": func(ctx context.Context, of podClients, pod *corev1.Pod) error {
		_, err := patch.NewApplier(of).Apply(ctx, pod, &patch.Options{Subresource: "status"},
			corev1apply.Pod(pod.Name, pod.Namespace).WithStatus(corev1apply.PodStatus().WithReason("wrong")))
		return err
	},
	"Delete": func(ctx context.Context, of podClients, pod *corev1.Pod) error {
		return patch.Delete(ctx, of, pod, nil)
	},
}

// embedding is a client as programs wrap it.
type embedding struct{ typedcorev1.PodInterface }

func relabel(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }

// hidden is a client whose namespace cannot be seen.
type (
	hidden       struct{ podInterface }
	podInterface typedcorev1.PodInterface
)

func blankPod(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "right"}}},
	}
}

// simulated is a client of a simulated server.
func simulated(t *testing.T) kubernetes.Interface {
	t.Helper()
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(sim.Config("controller"))
	g.Expect(err).NotTo(HaveOccurred())
	return client
}

// untouched expects that a write of cached, which is not what the server has in
// namespace, has failed and changed nothing.
func untouched(
	ctx context.Context, t testing.TB, client kubernetes.Interface, namespace string, write func() error,
) error {
	t.Helper()
	g := NewWithT(t)
	before, err := client.CoreV1().Pods(namespace).Get(ctx, "x", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	failure := write()
	g.Expect(failure).To(HaveOccurred())
	after, err := client.CoreV1().Pods(namespace).Get(ctx, "x", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after).To(Equal(before))
	return failure
}

// inTwoNamespaces makes a Pod of the same name in namespaces a and b, and
// returns the Pod in b.
func inTwoNamespaces(ctx context.Context, t testing.TB, client kubernetes.Interface, a, b string) *corev1.Pod {
	t.Helper()
	g := NewWithT(t)
	_, err := client.CoreV1().Pods(a).Create(ctx, blankPod(a), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	cached, err := client.CoreV1().Pods(b).Create(ctx, blankPod(b), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return cached
}

// A client of namespace a never writes a/x instead of b/x: the error names
// both.
func TestAClientOfAnotherNamespaceIsRefused(t *testing.T) {
	for name, write := range podWrites {
		t.Run(name, func(t *testing.T) {
			for _, client := range []kubernetes.Interface{simulated(t), fake.NewClientset()} {
				cached, wrong := inTwoNamespaces(t.Context(), t, client, "a", "b"), client.CoreV1().Pods("a")
				for _, wrong := range []typedcorev1.PodInterface{wrong, embedding{wrong}} {
					err := untouched(t.Context(), t, client, "a", func() error { return write(t.Context(), always(wrong), cached) })
					NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(`"a/x"`), ContainSubstring(`"b/x"`))))
				}
			}
		})
	}
}

// Where the namespace of the client does not show, the UID protects.
func TestAClientOfAHiddenNamespaceIsRefusedByTheServer(t *testing.T) {
	for name, write := range podWrites {
		t.Run(name, func(t *testing.T) {
			client := simulated(t)
			cached := inTwoNamespaces(t.Context(), t, client, "a", "b")
			of := func(string) typedcorev1.PodInterface { return hidden{podInterface(client.CoreV1().Pods("a"))} }
			err := untouched(t.Context(), t, client, "a", func() error { return write(t.Context(), of, cached) })
			NewWithT(t).Expect(patch.IsStale(err) || apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
		})
	}
}

func TestARecreatedObjectIsRefused(t *testing.T) {
	for name, write := range podWrites {
		t.Run(name, func(t *testing.T) {
			g, client := NewWithT(t), simulated(t)
			pods := client.CoreV1().Pods("b")
			cached, err := pods.Create(t.Context(), blankPod("b"), metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods.Delete(t.Context(), "x", metav1.DeleteOptions{})).To(Succeed())
			_, err = pods.Create(t.Context(), blankPod("b"), metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			err = untouched(t.Context(), t, client, "b", func() error { return write(t.Context(), client.CoreV1().Pods, cached) })
			g.Expect(err).To(MatchError(patch.IsStale, "IsStale"))
			g.Expect(err).To(MatchError(apierrors.IsConflict, "IsConflict"))
		})
	}
}

func TestTheClientOfTheObjectsNamespaceIsTaken(t *testing.T) {
	for name, write := range podWrites {
		t.Run(name, func(t *testing.T) {
			for _, client := range []kubernetes.Interface{simulated(t), fake.NewClientset()} {
				g := NewWithT(t)
				cached := inTwoNamespaces(t.Context(), t, client, "a", "b")
				g.Expect(write(t.Context(), client.CoreV1().Pods, cached)).To(Succeed())
				got, err := client.CoreV1().Pods("b").Get(t.Context(), "x", metav1.GetOptions{})
				g.Expect(apierrors.IsNotFound(err) || err == nil).To(BeTrue())
				g.Expect(got).NotTo(Equal(cached))
			}
		})
	}
}

// A client that writes something else and says so, as one of another namespace
// on a fake does.
func TestAnAnswerAboutAnotherObjectNamesBoth(t *testing.T) {
	for what, answer := range map[string]metav1.ObjectMeta{
		`"ns/c" with UID "u9"`: {Namespace: "ns", Name: "c", UID: "u9"},
		`"a/c" with UID ""`:    {Namespace: "a", Name: "c"},
		`"ns/d" with UID "u3"`: {Namespace: "ns", Name: "d", UID: "u3"},
	} {
		g := NewWithT(t)
		c := &recording[*corev1.ConfigMap]{answer: &corev1.ConfigMap{ObjectMeta: answer}}
		_, err := patch.Merge(t.Context(), always(c), configMap("u3"), nil, setB)
		g.Expect(err).To(MatchError(And(ContainSubstring(what), ContainSubstring(`"ns/c" with UID "u3"`))))
	}
	c := &recording[*corev1.ConfigMap]{}
	_, err := patch.Merge(t.Context(), always(c), configMap("u3"), nil, setB)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("neither an object nor an error")))
}

func TestAClusterScopedClientTakesNoNamespacedObject(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(blankPod("a"))
	for name, of := range map[string]podClients{
		"there is no client for namespace": patch.ClusterScoped(client.CoreV1().Pods("a")),
		"must not be nil":                  nil,
	} {
		_, err := patch.Merge(t.Context(), of, blankPod("a"), nil, relabel)
		g.Expect(err).To(MatchError(ContainSubstring(name)))
	}
	inNoNamespace := blankPod("")
	_, err := patch.Merge(t.Context(), patch.ClusterScoped(client.CoreV1().Pods("a")), inNoNamespace, nil, relabel)
	g.Expect(err).To(MatchError(And(ContainSubstring(`"a/x"`), ContainSubstring(`"/x"`))))
	g.Expect(client.Actions()).To(BeEmpty())
}

// Fakes give objects no UID: those are known by their names alone.
func TestAnObjectWithoutUIDIsWrittenByItsName(t *testing.T) {
	g := NewWithT(t)
	c := &recording[*corev1.ConfigMap]{answer: configMap("")}
	_, err := patch.Merge(t.Context(), always(c), configMap(""), nil, setB)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].body).To(MatchJSON(`{"data":{"b":"2"}}`))
}

// Servers ignore the UID in the status of custom kinds, so the resourceVersion
// is locked there.
func TestTheStatusOfARecreatedCustomObjectIsNotWritten(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{{
		Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true,
	}}})
	g.Expect(err).NotTo(HaveOccurred())
	recreatedStatus(t.Context(), t, widgetClients(t, sim.Config("controller")), "b")
}

// Nor do they check it in the scale of custom kinds.
func TestTheScaleOfACustomKindIsLocked(t *testing.T) {
	g := NewWithT(t)
	c := &recording[*autoscalingv1.Scale]{answer: &autoscalingv1.Scale{ObjectMeta: configMap("u3").ObjectMeta}}
	cached := &autoscalingv1.Scale{ObjectMeta: configMap("u3").ObjectMeta}
	cached.ResourceVersion = "5"
	_, err := patch.Merge(t.Context(), always(c), cached, &patch.Options{Subresource: "scale"},
		func(s *autoscalingv1.Scale) { s.Spec.Replicas = 7 })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].body).To(MatchJSON(
		`{"metadata":{"resourceVersion":"5","uid":"u3"},"spec":{"replicas":7}}`))
}

// The UID goes into the request of an Applier, not into the caller's
// configuration.
func TestTheConfigurationOfAnApplierStaysAsItIs(t *testing.T) {
	g := NewWithT(t)
	server := &applying{}
	config := corev1apply.Node("n1").WithLabels(map[string]string{"zone": "a"})
	cached := applied(1, "other", `{}`)
	got, err := patch.NewApplier(always(server)).Apply(t.Context(), cached, nil, config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.UID).To(Equal(types.UID("u1")))
	g.Expect(*server.configs[0].UID).To(Equal(types.UID("u1")))
	g.Expect(server.configs[0].ResourceVersion).To(BeNil(), "a newer one is no conflict")
	g.Expect(server.configs[0].Labels).To(Equal(config.Labels))
	g.Expect(config.UID).To(BeNil())
}

func TestAnApplierRefusesAConfigurationOfAnotherObject(t *testing.T) {
	g := NewWithT(t)
	server := &applying{}
	a := patch.NewApplier(always(server))
	for what, config := range map[string]*nodeConfig{
		`"/n2"`: corev1apply.Node("n2"), `"a/n1"`: corev1apply.Node("n1").WithNamespace("a"),
		`UID "u9"`: corev1apply.Node("n1").WithUID("u9"),
	} {
		_, err := a.Apply(t.Context(), applied(1, "m", `{}`), nil, config)
		g.Expect(err).To(MatchError(And(ContainSubstring(what), ContainSubstring(`"/n1" with UID "u1"`))))
	}
	g.Expect(server.asked).To(BeEmpty())
}
