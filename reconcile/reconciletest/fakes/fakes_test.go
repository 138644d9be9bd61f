package fakes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest/fakes"
)

// fixture is one fake clientset with the helpers of the rows.
type fixture struct {
	*gomega.WithT
	ctx  context.Context //nolint:containedctx // it is the test's
	kube kubernetes.Interface
}

// testNamespace is where most objects of the rows are.
const testNamespace = "d"

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: testNamespace, Name: name}
}

func (f *fixture) configMap(name string) *corev1.ConfigMap {
	cm, err := f.kube.CoreV1().ConfigMaps(testNamespace).Create(f.ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(name)}, metav1.CreateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return cm
}

func (f *fixture) label(cm *corev1.ConfigMap, value string) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	cm.Labels = map[string]string{"l": value}
	cm, err := f.kube.CoreV1().ConfigMaps(testNamespace).Update(f.ctx, cm, metav1.UpdateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return cm
}

func (f *fixture) remove(name string) {
	f.Expect(f.kube.CoreV1().ConfigMaps(testNamespace).Delete(f.ctx, name, metav1.DeleteOptions{})).To(gomega.Succeed())
}

func (f *fixture) names() []string {
	list, err := f.kube.CoreV1().ConfigMaps(testNamespace).List(f.ctx, metav1.ListOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	names := []string{}
	for _, cm := range list.Items {
		names = append(names, cm.Name)
	}
	return names
}

// watch collects events. The function that it returns ends the watch and lists
// them.
func (f *fixture) watch(o metav1.ListOptions) func() []string {
	w, err := f.kube.CoreV1().ConfigMaps(testNamespace).Watch(f.ctx, o)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return func() []string {
		defer w.Stop()
		seen := []string{}
		for range 1000 {
			synctest.Wait()
			select {
			case e, open := <-w.ResultChan():
				if !open {
					return append(seen, "end")
				}
				seen = append(seen, fmt.Sprintf("%s %s", e.Type, e.Object.(metav1.Object).GetName()))
			default:
				return seen
			}
		}
		return seen
	}
}

func (f *fixture) pod(name string) *corev1.Pod {
	pod, err := f.kube.CoreV1().Pods(testNamespace).Create(f.ctx, &corev1.Pod{ObjectMeta: objectMeta(name)}, metav1.CreateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return pod
}

// rows returns the known mistakes of a fake clientset, each with a test that
// passes only with the answers of a server.
func rows() map[string]func(f *fixture) {
	return map[string]func(f *fixture){
		"resourceVersion": func(f *fixture) {
			cm := f.configMap("a")
			f.Expect(cm.ResourceVersion).NotTo(gomega.BeEmpty())
			f.Expect(f.label(cm, "1").ResourceVersion).NotTo(gomega.Equal(cm.ResourceVersion))
		},
		"conflict": func(f *fixture) {
			cm := f.configMap("a")
			f.label(cm, "1")
			cm.ResourceVersion = "1"
			_, err := f.kube.CoreV1().ConfigMaps(testNamespace).Update(f.ctx, cm, metav1.UpdateOptions{})
			f.Expect(err).To(gomega.Satisfy(apierrors.IsConflict))
		},
		"conflict of a patch": func(f *fixture) {
			cm := f.configMap("a")
			f.label(cm, "1")
			_, err := f.kube.CoreV1().ConfigMaps(testNamespace).Patch(f.ctx, "a", types.MergePatchType,
				[]byte(`{"metadata":{"resourceVersion":"1"},"data":{"x":"1"}}`), metav1.PatchOptions{})
			f.Expect(err).To(gomega.Satisfy(apierrors.IsConflict))
		},
		"patch with a wrong UID": func(f *fixture) {
			f.configMap("a")
			_, err := f.kube.CoreV1().ConfigMaps(testNamespace).Patch(f.ctx, "a", types.MergePatchType,
				[]byte(`{"metadata":{"uid":"another"},"data":{"x":"1"}}`), metav1.PatchOptions{})
			f.Expect(err).To(gomega.Satisfy(apierrors.IsInvalid))
		},
		"update without a resourceVersion": func(f *fixture) {
			leases := f.kube.CoordinationV1().Leases(testNamespace)
			lease, err := leases.Create(f.ctx, &coordinationv1.Lease{ObjectMeta: objectMeta("l")}, metav1.CreateOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			lease.ResourceVersion = ""
			_, err = leases.Update(f.ctx, lease, metav1.UpdateOptions{})
			f.Expect(err).To(gomega.Satisfy(apierrors.IsInvalid))
		},
		"a write that changes nothing": func(f *fixture) {
			cm := f.label(f.configMap("a"), "1")
			events := f.watch(metav1.ListOptions{ResourceVersion: cm.ResourceVersion})
			f.label(cm, "1")
			f.Expect(events()).To(gomega.BeEmpty())
		},
		"generateName": func(f *fixture) {
			for range 2 {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, GenerateName: "a-"}}
				cm, err := f.kube.CoreV1().ConfigMaps(testNamespace).Create(f.ctx, cm, metav1.CreateOptions{})
				f.Expect(err).NotTo(gomega.HaveOccurred())
				f.Expect(cm.Name).To(gomega.MatchRegexp("^a-.{5}$"))
			}
			f.Expect(f.names()).To(gomega.HaveLen(2))
		},
		"uid and creationTimestamp": func(f *fixture) {
			cm := f.configMap("a")
			f.Expect(cm.UID).NotTo(gomega.BeEmpty())
			f.Expect(cm.CreationTimestamp.IsZero()).To(gomega.BeFalse())
		},
		"generation": func(f *fixture) {
			d := f.deployment()
			d.Spec.Paused = true
			after, err := f.kube.AppsV1().Deployments(testNamespace).Update(f.ctx, d, metav1.UpdateOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(after.Generation).To(gomega.Equal(int64(2)))
		},
		"create with what only the server sets": func(f *fixture) {
			now := metav1.Now()
			pod := &corev1.Pod{ObjectMeta: objectMeta("p"), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
			pod.DeletionTimestamp = &now
			pod, err := f.kube.CoreV1().Pods(testNamespace).Create(f.ctx, pod, metav1.CreateOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(pod.DeletionTimestamp).To(gomega.BeNil())
			f.Expect(pod.Status.Phase).To(gomega.Equal(corev1.PodPending))
		},
		"create with a resourceVersion": func(f *fixture) {
			cm := &corev1.ConfigMap{ObjectMeta: objectMeta("a")}
			cm.ResourceVersion = "7"
			_, err := f.kube.CoreV1().ConfigMaps(testNamespace).Create(f.ctx, cm, metav1.CreateOptions{})
			f.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("resourceVersion should not be set")))
		},
		"finalizers": func(f *fixture) {
			cm := f.configMap("a")
			cm.Finalizers = []string{"example.com/f"}
			f.label(cm, "1")
			f.remove("a")
			cm, err := f.kube.CoreV1().ConfigMaps(testNamespace).Get(f.ctx, "a", metav1.GetOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(cm.DeletionTimestamp).NotTo(gomega.BeNil())
			cm.Finalizers = nil
			f.label(cm, "2")
			f.Expect(f.names()).To(gomega.BeEmpty())
		},
		"preconditions of delete": func(f *fixture) {
			f.configMap("a")
			another := types.UID("another")
			err := f.kube.CoreV1().ConfigMaps(testNamespace).Delete(f.ctx, "a",
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &another}})
			f.Expect(err).To(gomega.Satisfy(apierrors.IsConflict))
			f.Expect(f.names()).To(gomega.Equal([]string{"a"}))
		},
		"dry run": func(f *fixture) {
			f.configMap("a")
			f.Expect(f.kube.CoreV1().ConfigMaps(testNamespace).Delete(f.ctx, "a",
				metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})).To(gomega.Succeed())
			f.Expect(f.names()).To(gomega.Equal([]string{"a"}))
		},
		"deletecollection": func(f *fixture) {
			f.label(f.configMap("a"), "1")
			f.label(f.configMap("b"), "2")
			f.Expect(f.kube.CoreV1().ConfigMaps(testNamespace).DeleteCollection(f.ctx, metav1.DeleteOptions{},
				metav1.ListOptions{LabelSelector: "l=1"})).To(gomega.Succeed())
			f.Expect(f.names()).To(gomega.Equal([]string{"b"}))
		},
		"status is left alone by update": func(f *fixture) {
			d := f.deployment()
			d.Status.Replicas = 7
			d, err := f.kube.AppsV1().Deployments(testNamespace).Update(f.ctx, d, metav1.UpdateOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(d.Status.Replicas).To(gomega.BeZero())
		},
		"all but status is left alone by its update": func(f *fixture) {
			d := f.deployment()
			d.Spec.Paused, d.Status.Replicas = true, 7
			d, err := f.kube.AppsV1().Deployments(testNamespace).UpdateStatus(f.ctx, d, metav1.UpdateOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(d.Status.Replicas).To(gomega.Equal(int32(7)))
			f.Expect(d.Spec.Paused).To(gomega.BeFalse())
		},
		"scale": func(f *fixture) {
			f.deployment()
			scale, err := f.kube.AppsV1().Deployments(testNamespace).GetScale(f.ctx, "d", metav1.GetOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			scale.Spec.Replicas = 5
			_, err = f.kube.AppsV1().Deployments(testNamespace).UpdateScale(f.ctx, "d", scale, metav1.UpdateOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			d, err := f.kube.AppsV1().Deployments(testNamespace).Get(f.ctx, "d", metav1.GetOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(*d.Spec.Replicas).To(gomega.Equal(int32(5)))
		},
		"eviction": func(f *fixture) {
			f.pod("p")
			err := f.kube.PolicyV1().Evictions(testNamespace).Evict(f.ctx, &policyv1.Eviction{ObjectMeta: objectMeta("p")})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			_, err = f.kube.CoreV1().Pods(testNamespace).Get(f.ctx, "p", metav1.GetOptions{})
			f.Expect(err).To(gomega.Satisfy(apierrors.IsNotFound))
		},
		"binding": func(f *fixture) {
			f.pod("p")
			target := corev1.ObjectReference{Kind: "Node", Name: "n"}
			err := f.kube.CoreV1().Pods(testNamespace).Bind(f.ctx, &corev1.Binding{ObjectMeta: objectMeta("p"), Target: target}, metav1.CreateOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			pod, err := f.kube.CoreV1().Pods(testNamespace).Get(f.ctx, "p", metav1.GetOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(pod.Spec.NodeName).To(gomega.Equal("n"))
		},
		"field selectors of lists": func(f *fixture) {
			f.configMap("a")
			f.configMap("b")
			list, err := f.kube.CoreV1().ConfigMaps(testNamespace).List(f.ctx, metav1.ListOptions{FieldSelector: "metadata.name=b"})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(list.Items).To(gomega.HaveLen(1))
		},
		"field selectors of watches": func(f *fixture) {
			events := f.watch(metav1.ListOptions{FieldSelector: "metadata.name=b"})
			f.configMap("a")
			f.configMap("b")
			f.Expect(events()).To(gomega.Equal([]string{"ADDED b"}))
		},
		"label selectors of watches": func(f *fixture) {
			cm := f.configMap("a")
			events := f.watch(metav1.ListOptions{LabelSelector: "l=1"})
			f.label(f.label(cm, "1"), "2")
			f.Expect(events()).To(gomega.Equal([]string{"ADDED a", "DELETED a"}))
		},
		"limit and continue": func(f *fixture) {
			f.configMap("a")
			f.configMap("b")
			first, err := f.kube.CoreV1().ConfigMaps(testNamespace).List(f.ctx, metav1.ListOptions{Limit: 1})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(first.Items).To(gomega.HaveLen(1))
			next, err := f.kube.CoreV1().ConfigMaps(testNamespace).List(f.ctx, metav1.ListOptions{Limit: 1, Continue: first.Continue})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.Expect(next.Items[0].Name).To(gomega.Equal("b"))
		},
		"a delete between list and watch": func(f *fixture) {
			f.configMap("a")
			list, err := f.kube.CoreV1().ConfigMaps(testNamespace).List(f.ctx, metav1.ListOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.remove("a")
			f.Expect(f.watch(metav1.ListOptions{ResourceVersion: list.ResourceVersion})()).To(gomega.Equal([]string{"DELETED a"}))
		},
		"a watch goes on where another ended": func(f *fixture) {
			cm := f.configMap("a")
			f.Expect(f.watch(metav1.ListOptions{ResourceVersion: cm.ResourceVersion})()).To(gomega.BeEmpty())
			f.remove("a")
			f.configMap("b")
			f.Expect(f.watch(metav1.ListOptions{ResourceVersion: cm.ResourceVersion})()).
				To(gomega.Equal([]string{"DELETED a", "ADDED b"}))
		},
		"many unread events": func(f *fixture) {
			events := f.watch(metav1.ListOptions{})
			for i := range 150 {
				f.configMap(fmt.Sprintf("a%03d", i))
			}
			f.Expect(events()).To(gomega.HaveLen(150))
		},
		"timeoutSeconds": func(f *fixture) {
			seconds := int64(5)
			events := f.watch(metav1.ListOptions{TimeoutSeconds: &seconds})
			<-time.After(6 * time.Second)
			f.Expect(events()).To(gomega.Equal([]string{"end"}))
		},
		"apply that changes nothing": func(f *fixture) {
			apply := func() *corev1.ConfigMap {
				cm, err := f.kube.CoreV1().ConfigMaps(testNamespace).Apply(f.ctx, applycorev1.ConfigMap("a", testNamespace).WithData(map[string]string{"x": "1"}),
					metav1.ApplyOptions{FieldManager: "m"})
				f.Expect(err).NotTo(gomega.HaveOccurred())
				return cm
			}
			events := f.watch(metav1.ListOptions{ResourceVersion: apply().ResourceVersion})
			apply()
			f.Expect(events()).To(gomega.BeEmpty())
		},
		"apply with a wrong UID": func(f *fixture) {
			f.configMap("a")
			_, err := f.kube.CoreV1().ConfigMaps(testNamespace).Apply(f.ctx, applycorev1.ConfigMap("a", testNamespace).WithUID("another"),
				metav1.ApplyOptions{FieldManager: "m"})
			f.Expect(err).To(gomega.Satisfy(apierrors.IsInvalid))
		},
		"a namespace that is not there": func(f *fixture) {
			_, err := f.kube.CoreV1().ConfigMaps("none").Create(f.ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			f.Expect(err).To(gomega.Satisfy(apierrors.IsNotFound))
		},
		"the end of a namespace": func(f *fixture) {
			f.configMap("a")
			f.Expect(f.kube.CoreV1().Namespaces().Delete(f.ctx, testNamespace, metav1.DeleteOptions{})).To(gomega.Succeed())
			f.Expect(f.names()).To(gomega.BeEmpty())
		},
		"names that are none": func(f *fixture) {
			_, err := f.kube.CoreV1().ConfigMaps(testNamespace).Create(f.ctx, &corev1.ConfigMap{ObjectMeta: objectMeta("a b")}, metav1.CreateOptions{})
			f.Expect(err).To(gomega.Satisfy(apierrors.IsInvalid))
		},
		"garbage collection": func(f *fixture) {
			owner := f.configMap("a")
			owned := &corev1.ConfigMap{ObjectMeta: objectMeta("b")}
			owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: owner.UID}}
			_, err := f.kube.CoreV1().ConfigMaps(testNamespace).Create(f.ctx, owned, metav1.CreateOptions{})
			f.Expect(err).NotTo(gomega.HaveOccurred())
			f.remove("a")
			f.Expect(f.names()).To(gomega.BeEmpty())
		},
	}
}

func (f *fixture) deployment() *appsv1.Deployment {
	one := int32(1)
	d, err := f.kube.AppsV1().Deployments(testNamespace).Create(f.ctx,
		&appsv1.Deployment{ObjectMeta: objectMeta("d"), Spec: appsv1.DeploymentSpec{Replicas: &one}}, metav1.CreateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return d
}

func namespace(name string) runtime.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

var errStop = errors.New("stop")

// wrong returns the failure of a row on a clientset, including a panic. It
// returns "" if the row passes.
func wrong(t *testing.T, row func(f *fixture), cs *fake.Clientset) (what string) {
	t.Helper()
	defer func() {
		if bad := recover(); bad != nil && what == "" {
			what = fmt.Sprint("panic: ", bad)
		}
	}()
	g := gomega.NewWithT(t)
	g.ConfigureWithFailHandler(func(message string, _ ...int) {
		what = message
		panic(errStop)
	})
	row(&fixture{WithT: g, ctx: t.Context(), kube: cs})
	return what
}

// A fake fails every row on its own, and passes it with Faithful.
func TestFaithful(t *testing.T) {
	makers := map[string]func(...runtime.Object) *fake.Clientset{"new": fake.NewClientset, "simple": fake.NewSimpleClientset}
	for name, row := range rows() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := gomega.NewWithT(t)
				g.Expect(wrong(t, row, fake.NewClientset(namespace(testNamespace)))).NotTo(gomega.BeEmpty(), "the fake by itself")
				for _, maker := range []string{"new", "simple"} {
					cs := makers[maker](namespace(testNamespace))
					g.Expect(fakes.Faithful(cs)).To(gomega.Succeed())
					g.Expect(wrong(t, row, cs)).To(gomega.BeEmpty(), maker)
				}
			})
		})
	}
}

// Objects that were in the fake stay there, with their namespace, and with the
// fields that a server sets.
func TestFaithfulTakesTheObjectsOver(t *testing.T) {
	g := gomega.NewWithT(t)
	cs := fake.NewClientset(breeding.Parent("a"), breeding.Child(breeding.Parent("b")),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"l": "1"}}})
	g.Expect(fakes.Faithful(cs)).To(gomega.Succeed())
	cm, err := cs.CoreV1().ConfigMaps("d").Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(cm.Labels).To(gomega.HaveKeyWithValue("parent", "yes"))
	g.Expect(cm.UID).NotTo(gomega.BeEmpty())
	g.Expect(cm.Kind).To(gomega.BeEmpty(), "as from a typed client")
	ns, err := cs.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: "l=1"})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(ns.Items).To(gomega.HaveLen(1))
}

// A test's own reactors come first, and resources that the server does not have
// stay with the fake.
func TestFaithfulLeavesTheRestToTheFake(t *testing.T) {
	g := gomega.NewWithT(t)
	cs := fake.NewClientset(namespace(testNamespace))
	g.Expect(fakes.Faithful(cs)).To(gomega.Succeed())
	fails := errors.New("fails")
	cs.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, fails })
	_, err := cs.CoreV1().Secrets(testNamespace).Create(t.Context(), &corev1.Secret{ObjectMeta: objectMeta("s")}, metav1.CreateOptions{})
	g.Expect(err).To(gomega.MatchError(fails))
	_, err = cs.CoreV1().Pods(testNamespace).Get(t.Context(), "", metav1.GetOptions{})
	g.Expect(err).To(gomega.MatchError("resource name may not be empty"))
	_, err = cs.CoreV1().PodTemplates(testNamespace).Create(t.Context(), &corev1.PodTemplate{ObjectMeta: objectMeta("t")}, metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(slices.IndexFunc(cs.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "create" })).To(gomega.BeZero())
	w, err := cs.CoreV1().PodTemplates(testNamespace).Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	w.Stop()
}
