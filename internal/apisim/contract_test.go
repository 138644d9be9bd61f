package apisim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/contract"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"Answers equal the real server's in status, reason, body and events, except for the differences that " +
			"docs/simulated-server.md lists.": TestConformance,
		"Built-in kinds have the real server's defaults.":                                                defaultsOfAPod,
		"A custom resource is defaulted, pruned and validated by its schema, if its kind was given one.": schemaOfAWidget,
		"Without a schema, it is stored as it was sent.":                                                 widgetWithoutSchema,
		"resourceVersion counts all writes that change an object, of all kinds.":                         versionsOfWrites,
		"generation counts the changes of the spec.":                                                     generationOfAPod,
		"A write with an old resourceVersion or with another UID is a conflict.":                         conflicts,
		"An object with finalizers is deleted when its last finalizer is removed.":                       finalizers,
		"A watch delivers an object that leaves its selection as DELETED.":                               leavingASelection,
		"All pages of a list show the state at its first page.":                                          pages,
		"A watch from a resourceVersion that was compacted gets 410.":                                    compaction,
		"Without a Scheduler every call is served at once.":                                              unscheduled,
		"With one, every call waits until the scheduler releases it, except for discovery, the admin's calls, and updates " +
			"of a series of events.": scheduled,
		"The same policy takes the same steps, so that two runs of a deterministic program have the same trace.": TestSameSeedSameTrace,
		"A Fault is injected before or after a call commits.":                                                    faultsAroundACommit,
		"Server.Fence kills one incarnation of a client: its later requests have no effect.":                     fencedIncarnation,
	})
}

// startServer returns a server with custom resources, and its administrator.
func startServer(t *testing.T, resources ...apisim.Resource) (*WithT, *apisim.Server, typedcorev1.CoreV1Interface) {
	t.Helper()
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{Resources: resources})
	g.Expect(err).NotTo(HaveOccurred())
	return g, sim, kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1()
}

func podOf(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c:v1"}}},
	}
}

func defaultsOfAPod(t *testing.T) {
	g, _, admin := startServer(t)
	pod, err := admin.Pods("d").Create(t.Context(), podOf("a"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Spec.RestartPolicy).To(Equal(corev1.RestartPolicyAlways))
	g.Expect(pod.Spec.DNSPolicy).To(Equal(corev1.DNSClusterFirst))
	g.Expect(pod.Spec.TerminationGracePeriodSeconds).To(HaveValue(BeEquivalentTo(30)))
	g.Expect(pod.Spec.Containers[0].ImagePullPolicy).To(Equal(corev1.PullIfNotPresent))
}

// sizes is a schema: a spec has a size, which is 1 by default and is not
// negative.
type sizes struct{ apisim.Schema }

func (sizes) Types() managedfields.TypeConverter { return managedfields.NewDeducedTypeConverter() }

func (sizes) Decode(obj map[string]any) (unknown []string) {
	spec, _ := obj["spec"].(map[string]any)
	for name := range spec {
		if name != "size" {
			delete(spec, name)
			unknown = append(unknown, "spec."+name)
		}
	}
	if spec["size"] == nil {
		obj["spec"] = map[string]any{"size": int64(1)}
	}
	return unknown
}

func (sizes) Validate(obj, _ map[string]any, _ string) (errs field.ErrorList) {
	if size, _, _ := unstructured.NestedInt64(obj, "spec", "size"); size < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "size"), size, "must not be negative"))
	}
	return errs
}

// widgetOf creates a Widget with a spec.
func widgetOf(t *testing.T, resource apisim.Resource, spec map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	_, sim, _ := startServer(t, resource)
	return dynamic.NewForConfigOrDie(sim.Admin()).Resource(widgets).Namespace("d").Create(t.Context(),
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sim.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": spec,
		}}, metav1.CreateOptions{})
}

func schemaOfAWidget(t *testing.T) {
	g := NewWithT(t)
	resource := customResources()[0]
	resource.Schema = sizes{}
	made, err := widgetOf(t, resource, map[string]any{"color": "red"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made.Object["spec"]).To(Equal(map[string]any{"size": int64(1)}))
	_, err = widgetOf(t, resource, map[string]any{"size": int64(-1)})
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
}

func widgetWithoutSchema(t *testing.T) {
	g := NewWithT(t)
	spec := map[string]any{"color": "red", "size": int64(-1)}
	made, err := widgetOf(t, customResources()[0], spec)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made.Object["spec"]).To(Equal(spec))
}

func versionsOfWrites(t *testing.T) {
	g, sim, admin := startServer(t)
	before := sim.Version()
	made, err := admin.ConfigMaps("d").Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = admin.Pods("d").Create(t.Context(), podOf("a"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sim.Version()).To(Equal(before + 2))
	same, err := admin.ConfigMaps("d").Update(t.Context(), made, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(same.ResourceVersion).To(Equal(made.ResourceVersion))
	g.Expect(sim.Version()).To(Equal(before + 2))
	g.Expect(admin.ConfigMaps("d").Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
	g.Expect(sim.Version()).To(Equal(before + 3))
}

func generationOfAPod(t *testing.T) {
	g, _, admin := startServer(t)
	pod, err := admin.Pods("d").Create(t.Context(), podOf("a"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Generation).To(BeEquivalentTo(1))
	pod.Labels, pod.Status.Phase = map[string]string{"a": "b"}, corev1.PodRunning
	pod, err = admin.Pods("d").Update(t.Context(), pod, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	pod.Status.Phase = corev1.PodRunning
	pod, err = admin.Pods("d").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
	g.Expect(pod.Generation).To(BeEquivalentTo(1))
	pod.Spec.Containers[0].Image = "example.com/c:v2"
	pod, err = admin.Pods("d").Update(t.Context(), pod, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Generation).To(BeEquivalentTo(2))
}

func conflicts(t *testing.T) {
	g, _, admin := startServer(t)
	old, err := admin.ConfigMaps("d").Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	changed := old.DeepCopy()
	changed.Data = map[string]string{"n": "1"}
	_, err = admin.ConfigMaps("d").Update(t.Context(), changed, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = admin.ConfigMaps("d").Update(t.Context(), old, metav1.UpdateOptions{})
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	err = admin.ConfigMaps("d").Delete(t.Context(), "a", *metav1.NewPreconditionDeleteOptions("another"))
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
}

func finalizers(t *testing.T) {
	g, _, admin := startServer(t)
	object := configMap("a")
	object.Finalizers = []string{"example.com/one", "example.com/two"}
	_, err := admin.ConfigMaps("d").Create(t.Context(), object, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(admin.ConfigMaps("d").Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
	for _, rest := range [][]string{{"example.com/two"}, nil} {
		held, err := admin.ConfigMaps("d").Get(t.Context(), "a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(held.DeletionTimestamp).NotTo(BeNil())
		held.Finalizers = rest
		_, err = admin.ConfigMaps("d").Update(t.Context(), held, metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err = admin.ConfigMaps("d").Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

func leavingASelection(t *testing.T) {
	g, _, admin := startServer(t)
	object := configMap("a")
	object.Labels = map[string]string{"team": "x"}
	object, err := admin.ConfigMaps("d").Create(t.Context(), object, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w, err := admin.ConfigMaps("d").Watch(t.Context(),
		metav1.ListOptions{LabelSelector: "team=x", ResourceVersion: object.ResourceVersion})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	object.Labels = map[string]string{"team": "y"}
	object, err = admin.ConfigMaps("d").Update(t.Context(), object, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(w.ResultChan()).Should(Receive(And(HaveField("Type", watch.Deleted),
		HaveField("Object.ObjectMeta.ResourceVersion", object.ResourceVersion))))
}

func pages(t *testing.T) {
	g, sim, admin := startServer(t)
	g.Expect(sim.Load(configMap("a"), configMap("b"))).To(Succeed())
	first, err := admin.ConfigMaps("d").List(t.Context(), metav1.ListOptions{Limit: 1})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(admin.ConfigMaps("d").Delete(t.Context(), "b", metav1.DeleteOptions{})).To(Succeed())
	g.Expect(sim.Load(configMap("c"))).To(Succeed())
	second, err := admin.ConfigMaps("d").List(t.Context(), metav1.ListOptions{Continue: first.Continue})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second.Items).To(HaveExactElements(HaveField("Name", "b")))
	g.Expect(second.ResourceVersion).To(Equal(first.ResourceVersion))
}

func compaction(t *testing.T) {
	g, sim, admin := startServer(t)
	list, err := admin.ConfigMaps("d").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sim.Load(configMap("a"))).To(Succeed())
	sim.Compact("configmaps")
	w, err := admin.ConfigMaps("d").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	var e watch.Event
	g.Eventually(w.ResultChan()).Should(Receive(&e))
	g.Expect(e.Type).To(Equal(watch.Error))
	g.Expect(apierrors.IsResourceExpired(apierrors.FromObject(e.Object))).To(BeTrue(), "%v", e.Object)
}

func unscheduled(t *testing.T) {
	g, sim, _ := startServer(t)
	g.Expect(sim.Load(configMap("a"))).To(Succeed())
	_, err := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps("d").Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

func scheduled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sim, admin := startServer(t)
		sched := sim.Schedule(0)
		client := kubernetes.NewForConfigOrDie(sim.Config("c"))
		g.Expect(sim.Load(configMap("a"))).To(Succeed())
		_, err := client.Discovery().ServerGroups()
		g.Expect(err).NotTo(HaveOccurred())
		_, err = admin.ConfigMaps("d").Get(t.Context(), "a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		one := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "d"},
		}
		_, err = admin.Events("d").Create(t.Context(), one, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Events("d").Patch(t.Context(), "e", types.MergePatchType,
			[]byte(`{"series":{"count":2,"lastObservedTime":"2030-01-01T00:00:00.000000Z"}}`), metav1.PatchOptions{})
		g.Expect(err).NotTo(HaveOccurred())

		served := false
		go func() {
			_, err := client.CoreV1().ConfigMaps("d").Get(t.Context(), "a", metav1.GetOptions{})
			served = err == nil
		}()
		<-time.After(time.Hour)
		synctest.Wait()
		g.Expect(served).To(BeFalse())
		g.Expect(sched.Run(apisim.Benign{}, apisim.Limits{Steps: 1})).To(Equal(apisim.Exhausted))
		g.Expect(served).To(BeTrue())
	})
}

// afterFault returns the error of a creation with a fault, and whether the
// object exists afterwards.
func afterFault(t *testing.T, fault apisim.Fault) (exists bool, failed error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		_, sim, admin := startServer(t)
		sched := sim.Schedule(0)
		maps := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps("d")
		go func() { _, failed = maps.Create(t.Context(), configMap("a"), metav1.CreateOptions{}) }()
		sched.Step(sched.Enabled()[0], fault)
		synctest.Wait()
		_, err := admin.ConfigMaps("d").Get(t.Context(), "a", metav1.GetOptions{})
		exists = err == nil
	})
	return exists, failed
}

func faultsAroundACommit(t *testing.T) {
	g := NewWithT(t)
	exists, failed := afterFault(t, apisim.Internal)
	g.Expect(apierrors.IsInternalError(failed)).To(BeTrue(), "%v", failed)
	g.Expect(exists).To(BeFalse(), "it is injected before")
	exists, failed = afterFault(t, apisim.LostReply)
	g.Expect(failed).To(MatchError(ContainSubstring("timeout awaiting response headers")))
	g.Expect(exists).To(BeTrue(), "it is injected after")
}

func fencedIncarnation(t *testing.T) {
	g, sim, admin := startServer(t)
	first := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1()
	sim.Fence("c")
	second := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1()
	_, err := first.ConfigMaps("d").Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	g.Expect(err).To(MatchError(context.Canceled))
	_, err = admin.ConfigMaps("d").Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	_, err = second.ConfigMaps("d").Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}
