package informer_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/parts"
)

// embedding is the caller's own client type, which embeds another client.
type embedding struct{ typedcorev1.ConfigMapInterface }

// handwritten is the caller's own client, which does not show what it reads.
type handwritten struct {
	to typedcorev1.ConfigMapInterface
}

func (h handwritten) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.ConfigMap, error) {
	return h.to.Get(ctx, name, o)
}

func (h handwritten) List(ctx context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return h.to.List(ctx, o)
}

func (h handwritten) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return h.to.Watch(ctx, o)
}

// scoped has the methods of an informer of any type that are about its scope.
type scoped interface {
	Run(ctx context.Context) error
	WaitForSync(ctx context.Context) error
	Parts() parts.Cache
	IsDeleted(ctx context.Context, key types.NamespacedName) bool
}

// boundToD are informers whose client reads the namespace d only.
func boundToD(g *WithT, sim *apisim.Server) map[string]scoped {
	config := sim.Config("c")
	core := kubernetes.NewForConfigOrDie(config).CoreV1()
	dyn, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	meta, err := metadata.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	maps := corev1.SchemeGroupVersion.WithResource("configmaps")
	return map[string]scoped{
		"generated":   informer.For(core.ConfigMaps("d"), nil),
		"dynamic":     informer.For(informer.Untyped(dyn.Resource(maps).Namespace("d")), nil),
		"metadata":    informer.For(informer.Untyped(meta.Resource(maps).Namespace("d")), nil),
		"embedded":    informer.For(embedding{core.ConfigMaps("d")}, nil),
		"handwritten": informer.For(handwritten{core.ConfigMaps("d")}, nil),
		"stated": informer.ForNamespaces(func(namespace string) handwritten {
			return handwritten{core.ConfigMaps(namespace)}
		}, &informer.Options{Namespaces: []string{"d"}}),
	}
}

func TestANamespaceThatAClientDoesNotReadIsNotInScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		core := kubernetes.NewForConfigOrDie(sim.Config("admin")).CoreV1()
		for _, namespace := range []string{"d", "e"} {
			_, err := core.ConfigMaps(namespace).Create(t.Context(), configMap(namespace, "lives"), metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		for name, in := range boundToD(g, sim) {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- in.Run(ctx) }()
			g.Expect(in.WaitForSync(t.Context())).To(Succeed(), name)
			g.Expect(in.Parts().InScope(types.NamespacedName{Namespace: "e", Name: "lives"})).To(BeFalse(), name)
			g.Expect(in.Parts().InScope(types.NamespacedName{Namespace: "d", Name: "none"})).To(BeTrue(), name)
			for range 2 * inBurst {
				g.Expect(in.IsDeleted(t.Context(), types.NamespacedName{Namespace: "e", Name: "lives"})).To(BeFalse(), name)
			}
			proven := false
			for range 2 * inBurst {
				proven = in.IsDeleted(t.Context(), types.NamespacedName{Namespace: "d", Name: "none"})
			}
			wrapped := name == "embedded" || name == "handwritten" // which may leave out objects
			g.Expect(proven).To(Equal(!wrapped), name)
			stop()
			g.Expect(<-ended).To(Succeed())
		}
	})
}

func TestWhatAHandwrittenClientReadsIsNotKnownBeforeItHasObjects(t *testing.T) {
	g := NewWithT(t)
	core := fake.NewClientset().CoreV1()
	for name, in := range map[string]scoped{
		"handwritten": informer.For(handwritten{core.ConfigMaps("")}, nil),
		"wrapped": clientgo.Wrap[*corev1.ConfigMap](
			informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().ConfigMaps().Informer(), nil),
	} {
		g.Expect(in.Parts().InScope(types.NamespacedName{Namespace: "d", Name: "a"})).To(BeFalse(), name)
	}
	g.Expect(informer.For(embedding{core.ConfigMaps("")}, nil).Parts().InScope(types.NamespacedName{Namespace: "d"})).To(BeTrue())
	nodes := informer.For(disguised{core.Nodes()}, nil)
	g.Expect(nodes.Parts().InScope(types.NamespacedName{Name: "a"})).To(BeTrue(), "its kind has no namespaces")
}

func TestForNamespacesRefusesAClientOfAnotherNamespace(t *testing.T) {
	g := NewWithT(t)
	core := fake.NewClientset().CoreV1()
	in := informer.ForNamespaces(func(string) typedcorev1.ConfigMapInterface { return core.ConfigMaps("d") },
		&informer.Options{Namespaces: []string{"e"}})
	g.Expect(in.Parts().Validate()).To(MatchError(ContainSubstring(`the client of namespace "e" reads namespace "d"`)))
	g.Expect(informer.ForNamespaces(core.ConfigMaps, nil).SetNamespaces("f")).To(Succeed())
}

func TestANilSelectorSelectsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pods := informer.For(fake.NewClientset(pod("a", "1")).CoreV1().Pods(""), &informer.Options{IndexLabels: []string{"app"}})
		for range pods.Snapshot().Select("", nil) {
			t.Error("there is nothing")
		}
		syncsAtOnce(t, g, pods)
		var none labels.Selector
		for range pods.Snapshot().Select("a", none) {
			t.Error("nil must select what metav1.LabelSelectorAsSelector(nil) does: nothing")
		}
	})
}

// olderNodes is a client as client-gen generated it before client-go had
// package gentype.
type olderNodes struct{ client rest.Interface }

func (o *olderNodes) Get(context.Context, string, metav1.GetOptions) (*corev1.Node, error) {
	return nil, context.Canceled
}

func (o *olderNodes) List(context.Context, metav1.ListOptions) (*corev1.NodeList, error) {
	return nil, context.Canceled
}

func (o *olderNodes) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, context.Canceled
}

// hidingNodes is a type that embeds a client, as programs have them.
type hidingNodes struct{ typedcorev1.NodeInterface }

func TestTheServerComesFromTheClient(t *testing.T) {
	g := NewWithT(t)
	config := &rest.Config{Host: "https://somebody:secret@rancher.example:8443/k8s/clusters/c-1/"}
	const url = "https://rancher.example:8443/k8s/clusters/c-1"
	typed, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	untyped, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	slim, err := metadata.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	server := func(s informer.Status) string { return s.Server }

	g.Expect(informer.For(typed.CoreV1().Nodes(), nil).Status()).To(WithTransform(server, Equal(url)))
	g.Expect(informer.For(typed.CoreV1().Pods("d"), nil).Status()).To(WithTransform(server, Equal(url)))
	g.Expect(informer.For(typed.AppsV1().Deployments("d"), nil).Status()).To(WithTransform(server, Equal(url)))
	g.Expect(informer.ForNamespaces(typed.CoreV1().Pods, &informer.Options{Namespaces: []string{"a", "b"}}).Status()).
		To(WithTransform(server, Equal(url)))
	g.Expect(informer.For(&olderNodes{typed.CoreV1().RESTClient()}, nil).Status()).To(WithTransform(server, Equal(url)))
	for _, namespace := range []string{"", "d"} {
		g.Expect(informer.For(informer.Untyped(untyped.Resource(configMaps).Namespace(namespace)), nil).Status()).
			To(WithTransform(server, Equal(url)))
		g.Expect(informer.For(informer.Untyped(slim.Resource(configMaps).Namespace(namespace)), nil).Status()).
			To(WithTransform(server, Equal(url)))
	}
}

func TestTheServerIsUnknownIfTheClientDoesNotShowIt(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	nodes := client.CoreV1().Nodes()
	unknown := WithTransform(func(s informer.Status) string { return s.Server }, BeEmpty())
	g.Expect(informer.For(nodes, nil).Status()).To(unknown)
	g.Expect(informer.For(hidingNodes{nodes}, nil).Status()).To(unknown)
	g.Expect(informer.For(&hidingNodes{}, nil).Status()).To(unknown)
	g.Expect(informer.For(&olderNodes{}, nil).Status()).To(unknown)
	g.Expect(informer.For(&olderNodes{(*rest.RESTClient)(nil)}, nil).Status()).To(unknown)
	g.Expect(informer.For(informer.Untyped(dynamicfake.NewSimpleDynamicClient(scheme.Scheme).Resource(configMaps)), nil).
		Status()).To(unknown)
	shared := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()
	g.Expect(clientgo.Wrap[*corev1.Node](shared, nil).Status()).To(unknown)
}
