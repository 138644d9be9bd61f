package clientgo_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
)

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// run runs in and returns when it has synced.
func run(t *testing.T, g *WithT, in *informer.Informer[*corev1.Pod]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
	g.Expect(in.WaitForSync(ctx)).To(Succeed())
}

func TestListersReadTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		web := pod("d", "web-1")
		web.Labels = map[string]string{"app": "web"}
		web.Spec.NodeName = "node-1"
		client := fake.NewClientset(web, pod("d", "2"), pod("e", "1"))
		pods := informer.For(client.CoreV1().Pods(""), nil)
		run(t, g, pods)
		lister := corelisters.NewPodLister(clientgo.Indexer(pods))

		all, err := lister.List(labels.Everything())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(all).To(HaveLen(3))
		some, err := lister.Pods("d").List(labels.SelectorFromSet(labels.Set{"app": "web"}))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(some).To(HaveLen(1))
		_, err = lister.Pods("e").Get("1")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = lister.Pods("e").Get("2")
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})
}

func TestTheIndexerBehavesAsInClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		for _, p := range []struct{ namespace, name, node string }{
			{"d", "1", "a"}, {"d", "2", "b"}, {"e", "1", "a"}, {"e", "2", ""},
		} {
			made := pod(p.namespace, p.name)
			made.Spec.NodeName = p.node
			g.Expect(client.Tracker().Add(made)).To(Succeed())
		}
		byNodes := cache.Indexers{"node": func(obj any) ([]string, error) {
			p := obj.(*corev1.Pod)
			if p.Spec.NodeName == "" {
				return nil, errors.New("no node")
			}
			return []string{p.Spec.NodeName, "any"}, nil
		}}
		pods := informer.For(client.CoreV1().Pods(""), nil)
		view := clientgo.Indexer(pods)
		g.Expect(view.AddIndexers(byNodes)).To(Succeed())
		g.Expect(view.AddIndexers(byNodes)).To(MatchError(ContainSubstring(`there already is an index named "node"`)))
		run(t, g, pods)

		g.Expect(view.ListKeys()).To(Equal([]string{"d/1", "d/2", "e/1", "e/2"}))
		g.Expect(view.List()).To(HaveLen(4))
		g.Expect(view.IndexKeys("node", "a")).To(Equal([]string{"d/1", "e/1"}))
		g.Expect(view.ByIndex("node", "b")).To(HaveLen(1))
		g.Expect(view.ByIndex(cache.NamespaceIndex, "e")).To(HaveLen(2))
		g.Expect(view.ListIndexFuncValues("node")).To(Equal([]string{"a", "any", "b"}))
		g.Expect(view.ListIndexFuncValues(cache.NamespaceIndex)).To(Equal([]string{"d", "e"}))
		g.Expect(view.GetIndexers()).To(And(HaveKey("node"), HaveKey(cache.NamespaceIndex)))
		like := pod("x", "x")
		like.Spec.NodeName = "a"
		g.Expect(view.Index("node", like)).To(HaveLen(3), "the objects of a and of any, each once")
		_, exists, err := view.Get(pod("d", "1"))
		g.Expect(exists, err).To(BeTrue())
		_, exists, err = view.GetByKey("d/9")
		g.Expect(exists, err).To(BeFalse())
		g.Expect(view.LastStoreSyncResourceVersion()).To(Equal(pods.LastResourceVersion()))
		view.Bookmark("7")
		g.Expect(view.Resync()).To(Succeed())

		for _, err := range []error{
			view.Add(like), view.Update(like), view.Delete(like), view.Replace(nil, ""),
		} {
			g.Expect(err).To(MatchError(ContainSubstring("is read-only")))
		}
		_, err = view.ByIndex("none", "")
		g.Expect(err).To(MatchError("Index with name none does not exist"))
		_, err = view.Index("none", like)
		g.Expect(err).To(HaveOccurred())
		_, err = view.IndexKeys("none", "")
		g.Expect(err).To(HaveOccurred())
		_, _, err = view.GetByKey("a/b/c")
		g.Expect(err).To(HaveOccurred())
		_, _, err = view.Get(7)
		g.Expect(err).To(HaveOccurred())
	})
}

func TestWrappedInformerThatIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		pods := clientgo.Wrap[*corev1.Pod](factory.Core().V1().Pods().Informer(), nil)
		g.Expect(pods.Name()).To(Equal("pods"))
		go func() { _ = pods.Run(t.Context()) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Expect(pods.WaitForSync(ctx)).To(MatchError(ContainSubstring("the wrapped informer has not synced")))
	})
}

func TestWrappedInformerSeesVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		factory := informers.NewSharedInformerFactory(client, 0)
		pods := clientgo.Wrap[*corev1.Pod](factory.Core().V1().Pods().Informer(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		defer cancel()
		run(t, g, pods)
		var seen bool
		pods.Parts().OnSeen("", "500", func() { seen = true })
		g.Expect(seen).To(BeFalse())
		made := pod("d", "1")
		made.ResourceVersion = "600"
		_, err := client.CoreV1().Pods("d").Create(ctx, made, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		g.Expect(seen).To(BeTrue())
		g.Expect(pods.LastResourceVersion()).To(Equal("600"))
	})
}

// versionLater hides the resourceVersion of a shared informer in the first
// calls.
type versionLater struct {
	cache.SharedIndexInformer

	hidden int
}

func (v *versionLater) LastSyncResourceVersion() string {
	if v.hidden--; v.hidden >= 0 {
		return ""
	}
	return v.SharedIndexInformer.LastSyncResourceVersion()
}

func TestWrappedInformerWaitsForTheVersionOfAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		shared := &versionLater{factory.Core().V1().Pods().Informer(), 5}
		pods := clientgo.Wrap[*corev1.Pod](shared, nil)
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		defer cancel()
		run(t, g, pods)
		g.Expect(pods.LastResourceVersion()).To(Equal("1"))
	})
}

func TestANilSharedInformerIsNamed(t *testing.T) {
	g := NewWithT(t)
	const why = "clientgo.Wrap: the shared informer is nil"
	g.Expect(clientgo.Wrap[*corev1.Pod](nil, nil).Run(t.Context())).To(MatchError(ContainSubstring(why)))
	g.Expect(clientgo.Wrap[*corev1.Pod](cache.SharedIndexInformer(nil), nil).Parts().Validate()).To(MatchError(ContainSubstring(why)))
}
