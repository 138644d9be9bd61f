package informer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/homeostat/homeostat/informer"
)

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// syncsAtOnce runs the informer in until it has synced. That must take no
// virtual time.
func syncsAtOnce[T informer.Object](t *testing.T, g *WithT, in *informer.Informer[T]) {
	t.Helper()
	began := time.Now()
	stop := running(t.Context(), in)
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g.Expect(in.WaitForSync(ctx)).To(Succeed())
	g.Expect(time.Since(began)).To(BeZero())
	synctest.Wait()
}

func TestTypedFake(t *testing.T) {
	for name, client := range map[string]*fake.Clientset{
		"NewClientset":       fake.NewClientset(node("a")),
		"NewSimpleClientset": fake.NewSimpleClientset(node("a")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				api := client.CoreV1().Nodes()
				nodes := informer.For(api, nil)
				told := &record{}
				nodes.Handle(told.hear)
				syncsAtOnce(t, g, nodes)

				_, err := api.Create(t.Context(), node("b"), metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				b := node("b")
				if name == "NewSimpleClientset" { // the other one changes managedFields
					_, err = api.Update(t.Context(), b, metav1.UpdateOptions{})
					g.Expect(err).NotTo(HaveOccurred())
				}
				b.Spec.Unschedulable = true
				updated, err := api.Update(t.Context(), b, metav1.UpdateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(nodes.WaitFor(t.Context(), updated.ResourceVersion)).To(Succeed(), "a version that cannot be compared")
				g.Expect(api.Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
				synctest.Wait()
				g.Expect(told.heard()).To(Equal([]string{"known a", "added b", "updated b", "deleted a"}))
				g.Expect(nodes.Name()).To(Equal("nodes"))
				g.Expect(nodes.Kind()).To(Equal("Node"))
			})
		})
	}
}

// disguised is the caller's own client type. It embeds a client that cannot
// stream lists, and hides this.
type disguised struct{ client typedcorev1.NodeInterface }

func (d disguised) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Node, error) {
	return d.client.Get(ctx, name, o)
}

func (d disguised) List(ctx context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
	return d.client.List(ctx, o)
}

func (d disguised) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return d.client.Watch(ctx, o)
}

func TestDisguisedFakeSyncsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := disguised{fake.NewClientset(node("a")).CoreV1().Nodes()}
		nodes := informer.For(client, nil)
		began := time.Now()
		stop := running(t.Context(), nodes)
		defer stop()
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		g.Expect(time.Since(began)).To(Equal(streamIdle))
		g.Expect(nodes.Snapshot().Len()).To(Equal(1))
	})
}

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func widget(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}

func TestDynamicFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{widgets: "WidgetList"}, widget("d", "a")).Resource(widgets)
		in := informer.For(informer.Untyped(client), nil)
		g.Expect(in.Name()).To(Equal("objects"))
		syncsAtOnce(t, g, in)
		g.Expect(in.Kind()).To(Equal("Widget"))
		g.Expect(in.Name()).To(Equal("widgets"))
		g.Expect(client.Namespace("d").Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
		synctest.Wait()
		g.Expect(in.Snapshot().Len()).To(BeZero())
	})
}

func TestMetadataFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		scheme := metadatafake.NewTestScheme()
		g.Expect(metav1.AddMetaToScheme(scheme)).To(Succeed())
		client := metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"},
		}).Resource(corev1.SchemeGroupVersion.WithResource("pods"))
		in := informer.For(informer.Untyped(client), &informer.Options{Kind: "Pod"})
		g.Expect(in.Name()).To(Equal("pods"))
		syncsAtOnce(t, g, in)
		_, ok := in.Get(types.NamespacedName{Namespace: "d", Name: "a"})
		g.Expect(ok).To(BeTrue())
	})
}

func TestSeveralNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(pod("a", "1"), pod("b", "1"), pod("c", "1"))
		pods := informer.ForNamespaces(client.CoreV1().Pods, &informer.Options{Namespaces: []string{"c", "a", "c"}})
		g.Expect(matches(pods.Matches(pod("a", "x")))).To(BeTrue())
		_, known := pods.Matches((*corev1.Pod)(nil))
		g.Expect(known).To(BeFalse())
		g.Expect(matches(pods.Matches(pod("b", "x")))).To(BeFalse())
		syncsAtOnce(t, g, pods)
		_, err := client.CoreV1().Pods("c").Create(t.Context(), pod("c", "2"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Pods("b").Create(t.Context(), pod("b", "2"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		g.Expect(keys(pods)).To(Equal([]string{"a/1", "c/1", "c/2"}))
	})
}

func keys[T informer.Object](in *informer.Informer[T]) []string {
	var all []string
	for object := range in.Snapshot().All() {
		all = append(all, object.GetNamespace()+"/"+object.GetName())
	}
	return all
}

// A controller receives the events of writes that it makes as soon as it has
// the first list, although a fake's watch delivers only events after it was
// opened.
func TestWhatFollowsFromTheFirstListOfAFakeIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api := fake.NewClientset(node("a"), node("b")).CoreV1().Nodes()
		nodes := informer.For(api, nil)
		nodes.Handle(func(e informer.Event[*corev1.Node]) {
			if e.Initial && e.New.Name == "a" {
				g.Expect(api.Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
			}
		})
		syncsAtOnce(t, g, nodes)
		g.Expect(keys(nodes)).To(Equal([]string{"/b"}))
	})
}

// matches returns the first of two results.
func matches(matches, _ bool) bool { return matches }
