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

	"github.com/homeostat/homeostat/internal/proof/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest/fakes"
)

// bed is one fake clientset with what the rows need of it.
type bed struct {
	*gomega.WithT
	ctx  context.Context //nolint:containedctx // it is the test's
	kube kubernetes.Interface
}

// in is where most objects of the rows are.
const in = "d"

func meadow(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: in, Name: name} }

func (b *bed) configMap(name string) *corev1.ConfigMap {
	cm, err := b.kube.CoreV1().ConfigMaps(in).Create(b.ctx, &corev1.ConfigMap{ObjectMeta: meadow(name)}, metav1.CreateOptions{})
	b.Expect(err).NotTo(gomega.HaveOccurred())
	return cm
}

func (b *bed) label(cm *corev1.ConfigMap, value string) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	cm.Labels = map[string]string{"l": value}
	cm, err := b.kube.CoreV1().ConfigMaps(in).Update(b.ctx, cm, metav1.UpdateOptions{})
	b.Expect(err).NotTo(gomega.HaveOccurred())
	return cm
}

func (b *bed) remove(name string) {
	b.Expect(b.kube.CoreV1().ConfigMaps(in).Delete(b.ctx, name, metav1.DeleteOptions{})).To(gomega.Succeed())
}

func (b *bed) names() []string {
	list, err := b.kube.CoreV1().ConfigMaps(in).List(b.ctx, metav1.ListOptions{})
	b.Expect(err).NotTo(gomega.HaveOccurred())
	names := []string{}
	for _, cm := range list.Items {
		names = append(names, cm.Name)
	}
	return names
}

// watch collects events: what it returns ends the watch and lists them.
func (b *bed) watch(o metav1.ListOptions) func() []string {
	w, err := b.kube.CoreV1().ConfigMaps(in).Watch(b.ctx, o)
	b.Expect(err).NotTo(gomega.HaveOccurred())
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

func (b *bed) pod(name string) *corev1.Pod {
	pod, err := b.kube.CoreV1().Pods(in).Create(b.ctx, &corev1.Pod{ObjectMeta: meadow(name)}, metav1.CreateOptions{})
	b.Expect(err).NotTo(gomega.HaveOccurred())
	return pod
}

// rows are what a fake clientset gets wrong, each with a test that only a server's answers pass.
func rows() map[string]func(b *bed) {
	return map[string]func(b *bed){
		"resourceVersion": func(b *bed) {
			cm := b.configMap("a")
			b.Expect(cm.ResourceVersion).NotTo(gomega.BeEmpty())
			b.Expect(b.label(cm, "1").ResourceVersion).NotTo(gomega.Equal(cm.ResourceVersion))
		},
		"conflict": func(b *bed) {
			cm := b.configMap("a")
			b.label(cm, "1")
			cm.ResourceVersion = "1"
			_, err := b.kube.CoreV1().ConfigMaps(in).Update(b.ctx, cm, metav1.UpdateOptions{})
			b.Expect(err).To(gomega.Satisfy(apierrors.IsConflict))
		},
		"conflict of a patch": func(b *bed) {
			cm := b.configMap("a")
			b.label(cm, "1")
			_, err := b.kube.CoreV1().ConfigMaps(in).Patch(b.ctx, "a", types.MergePatchType,
				[]byte(`{"metadata":{"resourceVersion":"1"},"data":{"x":"1"}}`), metav1.PatchOptions{})
			b.Expect(err).To(gomega.Satisfy(apierrors.IsConflict))
		},
		"patch with a wrong UID": func(b *bed) {
			b.configMap("a")
			_, err := b.kube.CoreV1().ConfigMaps(in).Patch(b.ctx, "a", types.MergePatchType,
				[]byte(`{"metadata":{"uid":"another"},"data":{"x":"1"}}`), metav1.PatchOptions{})
			b.Expect(err).To(gomega.Satisfy(apierrors.IsInvalid))
		},
		"update without a resourceVersion": func(b *bed) {
			leases := b.kube.CoordinationV1().Leases(in)
			lease, err := leases.Create(b.ctx, &coordinationv1.Lease{ObjectMeta: meadow("l")}, metav1.CreateOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			lease.ResourceVersion = ""
			_, err = leases.Update(b.ctx, lease, metav1.UpdateOptions{})
			b.Expect(err).To(gomega.Satisfy(apierrors.IsInvalid))
		},
		"a write that changes nothing": func(b *bed) {
			cm := b.label(b.configMap("a"), "1")
			events := b.watch(metav1.ListOptions{ResourceVersion: cm.ResourceVersion})
			b.label(cm, "1")
			b.Expect(events()).To(gomega.BeEmpty())
		},
		"generateName": func(b *bed) {
			for range 2 {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: in, GenerateName: "a-"}}
				cm, err := b.kube.CoreV1().ConfigMaps(in).Create(b.ctx, cm, metav1.CreateOptions{})
				b.Expect(err).NotTo(gomega.HaveOccurred())
				b.Expect(cm.Name).To(gomega.MatchRegexp("^a-.{5}$"))
			}
			b.Expect(b.names()).To(gomega.HaveLen(2))
		},
		"uid and creationTimestamp": func(b *bed) {
			cm := b.configMap("a")
			b.Expect(cm.UID).NotTo(gomega.BeEmpty())
			b.Expect(cm.CreationTimestamp.IsZero()).To(gomega.BeFalse())
		},
		"generation": func(b *bed) {
			d := b.deployment()
			d.Spec.Paused = true
			after, err := b.kube.AppsV1().Deployments(in).Update(b.ctx, d, metav1.UpdateOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(after.Generation).To(gomega.Equal(int64(2)))
		},
		"create with what only the server sets": func(b *bed) {
			now := metav1.Now()
			pod := &corev1.Pod{ObjectMeta: meadow("p"), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
			pod.DeletionTimestamp = &now
			pod, err := b.kube.CoreV1().Pods(in).Create(b.ctx, pod, metav1.CreateOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(pod.DeletionTimestamp).To(gomega.BeNil())
			b.Expect(pod.Status.Phase).To(gomega.Equal(corev1.PodPending))
		},
		"create with a resourceVersion": func(b *bed) {
			cm := &corev1.ConfigMap{ObjectMeta: meadow("a")}
			cm.ResourceVersion = "7"
			_, err := b.kube.CoreV1().ConfigMaps(in).Create(b.ctx, cm, metav1.CreateOptions{})
			b.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("resourceVersion should not be set")))
		},
		"finalizers": func(b *bed) {
			cm := b.configMap("a")
			cm.Finalizers = []string{"example.com/f"}
			b.label(cm, "1")
			b.remove("a")
			cm, err := b.kube.CoreV1().ConfigMaps(in).Get(b.ctx, "a", metav1.GetOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(cm.DeletionTimestamp).NotTo(gomega.BeNil())
			cm.Finalizers = nil
			b.label(cm, "2")
			b.Expect(b.names()).To(gomega.BeEmpty())
		},
		"preconditions of delete": func(b *bed) {
			b.configMap("a")
			another := types.UID("another")
			err := b.kube.CoreV1().ConfigMaps(in).Delete(b.ctx, "a",
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &another}})
			b.Expect(err).To(gomega.Satisfy(apierrors.IsConflict))
			b.Expect(b.names()).To(gomega.Equal([]string{"a"}))
		},
		"dry run": func(b *bed) {
			b.configMap("a")
			b.Expect(b.kube.CoreV1().ConfigMaps(in).Delete(b.ctx, "a",
				metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})).To(gomega.Succeed())
			b.Expect(b.names()).To(gomega.Equal([]string{"a"}))
		},
		"deletecollection": func(b *bed) {
			b.label(b.configMap("a"), "1")
			b.label(b.configMap("b"), "2")
			b.Expect(b.kube.CoreV1().ConfigMaps(in).DeleteCollection(b.ctx, metav1.DeleteOptions{},
				metav1.ListOptions{LabelSelector: "l=1"})).To(gomega.Succeed())
			b.Expect(b.names()).To(gomega.Equal([]string{"b"}))
		},
		"status is left alone by update": func(b *bed) {
			d := b.deployment()
			d.Status.Replicas = 7
			d, err := b.kube.AppsV1().Deployments(in).Update(b.ctx, d, metav1.UpdateOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(d.Status.Replicas).To(gomega.BeZero())
		},
		"all but status is left alone by its update": func(b *bed) {
			d := b.deployment()
			d.Spec.Paused, d.Status.Replicas = true, 7
			d, err := b.kube.AppsV1().Deployments(in).UpdateStatus(b.ctx, d, metav1.UpdateOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(d.Status.Replicas).To(gomega.Equal(int32(7)))
			b.Expect(d.Spec.Paused).To(gomega.BeFalse())
		},
		"scale": func(b *bed) {
			b.deployment()
			scale, err := b.kube.AppsV1().Deployments(in).GetScale(b.ctx, "d", metav1.GetOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			scale.Spec.Replicas = 5
			_, err = b.kube.AppsV1().Deployments(in).UpdateScale(b.ctx, "d", scale, metav1.UpdateOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			d, err := b.kube.AppsV1().Deployments(in).Get(b.ctx, "d", metav1.GetOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(*d.Spec.Replicas).To(gomega.Equal(int32(5)))
		},
		"eviction": func(b *bed) {
			b.pod("p")
			err := b.kube.PolicyV1().Evictions(in).Evict(b.ctx, &policyv1.Eviction{ObjectMeta: meadow("p")})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			_, err = b.kube.CoreV1().Pods(in).Get(b.ctx, "p", metav1.GetOptions{})
			b.Expect(err).To(gomega.Satisfy(apierrors.IsNotFound))
		},
		"binding": func(b *bed) {
			b.pod("p")
			target := corev1.ObjectReference{Kind: "Node", Name: "n"}
			err := b.kube.CoreV1().Pods(in).Bind(b.ctx, &corev1.Binding{ObjectMeta: meadow("p"), Target: target}, metav1.CreateOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			pod, err := b.kube.CoreV1().Pods(in).Get(b.ctx, "p", metav1.GetOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(pod.Spec.NodeName).To(gomega.Equal("n"))
		},
		"field selectors of lists": func(b *bed) {
			b.configMap("a")
			b.configMap("b")
			list, err := b.kube.CoreV1().ConfigMaps(in).List(b.ctx, metav1.ListOptions{FieldSelector: "metadata.name=b"})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(list.Items).To(gomega.HaveLen(1))
		},
		"field selectors of watches": func(b *bed) {
			events := b.watch(metav1.ListOptions{FieldSelector: "metadata.name=b"})
			b.configMap("a")
			b.configMap("b")
			b.Expect(events()).To(gomega.Equal([]string{"ADDED b"}))
		},
		"label selectors of watches": func(b *bed) {
			cm := b.configMap("a")
			events := b.watch(metav1.ListOptions{LabelSelector: "l=1"})
			b.label(b.label(cm, "1"), "2")
			b.Expect(events()).To(gomega.Equal([]string{"ADDED a", "DELETED a"}))
		},
		"limit and continue": func(b *bed) {
			b.configMap("a")
			b.configMap("b")
			first, err := b.kube.CoreV1().ConfigMaps(in).List(b.ctx, metav1.ListOptions{Limit: 1})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(first.Items).To(gomega.HaveLen(1))
			next, err := b.kube.CoreV1().ConfigMaps(in).List(b.ctx, metav1.ListOptions{Limit: 1, Continue: first.Continue})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.Expect(next.Items[0].Name).To(gomega.Equal("b"))
		},
		"a delete between list and watch": func(b *bed) {
			b.configMap("a")
			list, err := b.kube.CoreV1().ConfigMaps(in).List(b.ctx, metav1.ListOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.remove("a")
			b.Expect(b.watch(metav1.ListOptions{ResourceVersion: list.ResourceVersion})()).To(gomega.Equal([]string{"DELETED a"}))
		},
		"a watch goes on where another ended": func(b *bed) {
			cm := b.configMap("a")
			b.Expect(b.watch(metav1.ListOptions{ResourceVersion: cm.ResourceVersion})()).To(gomega.BeEmpty())
			b.remove("a")
			b.configMap("b")
			b.Expect(b.watch(metav1.ListOptions{ResourceVersion: cm.ResourceVersion})()).
				To(gomega.Equal([]string{"DELETED a", "ADDED b"}))
		},
		"many unread events": func(b *bed) {
			events := b.watch(metav1.ListOptions{})
			for i := range 150 {
				b.configMap(fmt.Sprintf("a%03d", i))
			}
			b.Expect(events()).To(gomega.HaveLen(150))
		},
		"timeoutSeconds": func(b *bed) {
			seconds := int64(5)
			events := b.watch(metav1.ListOptions{TimeoutSeconds: &seconds})
			<-time.After(6 * time.Second)
			b.Expect(events()).To(gomega.Equal([]string{"end"}))
		},
		"apply that changes nothing": func(b *bed) {
			apply := func() *corev1.ConfigMap {
				cm, err := b.kube.CoreV1().ConfigMaps(in).Apply(b.ctx, applycorev1.ConfigMap("a", in).WithData(map[string]string{"x": "1"}),
					metav1.ApplyOptions{FieldManager: "m"})
				b.Expect(err).NotTo(gomega.HaveOccurred())
				return cm
			}
			events := b.watch(metav1.ListOptions{ResourceVersion: apply().ResourceVersion})
			apply()
			b.Expect(events()).To(gomega.BeEmpty())
		},
		"apply with a wrong UID": func(b *bed) {
			b.configMap("a")
			_, err := b.kube.CoreV1().ConfigMaps(in).Apply(b.ctx, applycorev1.ConfigMap("a", in).WithUID("another"),
				metav1.ApplyOptions{FieldManager: "m"})
			b.Expect(err).To(gomega.Satisfy(apierrors.IsInvalid))
		},
		"a namespace that is not there": func(b *bed) {
			_, err := b.kube.CoreV1().ConfigMaps("none").Create(b.ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			b.Expect(err).To(gomega.Satisfy(apierrors.IsNotFound))
		},
		"the end of a namespace": func(b *bed) {
			b.configMap("a")
			b.Expect(b.kube.CoreV1().Namespaces().Delete(b.ctx, in, metav1.DeleteOptions{})).To(gomega.Succeed())
			b.Expect(b.names()).To(gomega.BeEmpty())
		},
		"names that are none": func(b *bed) {
			_, err := b.kube.CoreV1().ConfigMaps(in).Create(b.ctx, &corev1.ConfigMap{ObjectMeta: meadow("a b")}, metav1.CreateOptions{})
			b.Expect(err).To(gomega.Satisfy(apierrors.IsInvalid))
		},
		"garbage collection": func(b *bed) {
			owner := b.configMap("a")
			owned := &corev1.ConfigMap{ObjectMeta: meadow("b")}
			owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: owner.UID}}
			_, err := b.kube.CoreV1().ConfigMaps(in).Create(b.ctx, owned, metav1.CreateOptions{})
			b.Expect(err).NotTo(gomega.HaveOccurred())
			b.remove("a")
			b.Expect(b.names()).To(gomega.BeEmpty())
		},
	}
}

func (b *bed) deployment() *appsv1.Deployment {
	one := int32(1)
	d, err := b.kube.AppsV1().Deployments(in).Create(b.ctx,
		&appsv1.Deployment{ObjectMeta: meadow("d"), Spec: appsv1.DeploymentSpec{Replicas: &one}}, metav1.CreateOptions{})
	b.Expect(err).NotTo(gomega.HaveOccurred())
	return d
}

func namespace(name string) runtime.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

var errStop = errors.New("stop")

// wrong tells what a row finds wrong with a clientset, a panic included; "" is nothing.
func wrong(t *testing.T, row func(b *bed), cs *fake.Clientset) (what string) {
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
	row(&bed{WithT: g, ctx: t.Context(), kube: cs})
	return what
}

// Every row is what a fake gets wrong by itself, and right with Faithful.
func TestFaithful(t *testing.T) {
	makers := map[string]func(...runtime.Object) *fake.Clientset{"new": fake.NewClientset, "simple": fake.NewSimpleClientset}
	for name, row := range rows() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := gomega.NewWithT(t)
				g.Expect(wrong(t, row, fake.NewClientset(namespace(in)))).NotTo(gomega.BeEmpty(), "the fake by itself")
				for _, maker := range []string{"new", "simple"} {
					cs := makers[maker](namespace(in))
					g.Expect(fakes.Faithful(cs)).To(gomega.Succeed())
					g.Expect(wrong(t, row, cs)).To(gomega.BeEmpty(), maker)
				}
			})
		})
	}
}

// What was in the fake is there afterwards, with its namespace, and with what a server gives it.
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

// A test's own reactors come first, and what the server does not have stays with the fake.
func TestFaithfulLeavesTheRestToTheFake(t *testing.T) {
	g := gomega.NewWithT(t)
	cs := fake.NewClientset(namespace(in))
	g.Expect(fakes.Faithful(cs)).To(gomega.Succeed())
	fails := errors.New("fails")
	cs.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, fails })
	_, err := cs.CoreV1().Secrets(in).Create(t.Context(), &corev1.Secret{ObjectMeta: meadow("s")}, metav1.CreateOptions{})
	g.Expect(err).To(gomega.MatchError(fails))
	_, err = cs.CoreV1().Pods(in).Get(t.Context(), "", metav1.GetOptions{})
	g.Expect(err).To(gomega.MatchError("resource name may not be empty"))
	_, err = cs.CoreV1().PodTemplates(in).Create(t.Context(), &corev1.PodTemplate{ObjectMeta: meadow("t")}, metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(slices.IndexFunc(cs.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "create" })).To(gomega.BeZero())
	w, err := cs.CoreV1().PodTemplates(in).Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	w.Stop()
}
