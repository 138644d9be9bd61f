package reconcile_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// maps and widgets are informers of the server at host; they are not run.
func maps(g *WithT, host string) *informer.Informer[*configMap] {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: host})
	g.Expect(err).NotTo(HaveOccurred())
	return informer.For(client.CoreV1().ConfigMaps("d"), nil)
}

func widgets(g *WithT, host string) *informer.Informer[*unstructured.Unstructured] {
	client, err := dynamic.NewForConfig(&rest.Config{Host: host})
	g.Expect(err).NotTo(HaveOccurred())
	return informer.For(informer.Untyped(client.Resource(corev1.SchemeGroupVersion.WithResource("widgets"))),
		&informer.Options{Name: "widgets"})
}

func newWith(in *informer.Informer[*configMap], triggers ...reconcile.Trigger) error {
	_, err := reconcile.New("test", in, reconcile.Func[*configMap](
		func(context.Context, request) (reconcile.Result, error) { return nothing, nil },
	), &reconcile.Options{Triggers: triggers})
	return err
}

func TestTriggersMustReadFromTheControllersOwnCluster(t *testing.T) {
	g := NewWithT(t)
	toNothing := func(_ context.Context, _, _ *unstructured.Unstructured) ([]reconcile.Key, error) { return nil, nil }
	hub := maps(g, "https://hub:6443")
	g.Expect(newWith(hub, reconcile.Owned(maps(g, "https://hub:6443/")),
		reconcile.Mapped(widgets(g, "https://hub:6443"), toNothing))).To(Succeed())

	err := newWith(hub, reconcile.Owned(maps(g, "https://hub:6443")),
		reconcile.Mapped(widgets(g, "https://spoke:6443"), toNothing), reconcile.Owned(maps(g, "https://hub:6443/clusters/b")))
	g.Expect(err).To(MatchError(And(
		ContainSubstring(`making controller "test": reconcile.Options.Triggers[1] is mapped: must not watch another cluster: the informer of widgets reads from https://spoke:6443, `+
			"and the informer of the controller's own configmaps from https://hub:6443"),
		ContainSubstring("give the other cluster a controller of its own"),
		ContainSubstring("reconcile.Options.Triggers[2] is owned: must not watch another cluster: the informer of configmaps reads from https://hub:6443/clusters/b"),
		Not(ContainSubstring("Triggers[0]")),
	)))
}

func TestInformersWhoseServerIsUnknownAreNotCompared(t *testing.T) {
	g := NewWithT(t)
	here, there := fake.NewClientset().CoreV1(), fake.NewClientset().CoreV1()
	fakes := informer.For(here.ConfigMaps("d"), nil)
	g.Expect(newWith(fakes, reconcile.Owned(informer.For(there.Secrets("d"), nil)))).To(Succeed())
	g.Expect(newWith(fakes, reconcile.Owned(maps(g, "https://hub:6443")))).To(Succeed())
	g.Expect(newWith(maps(g, "https://hub:6443"), reconcile.Owned(fakes))).To(Succeed())
}

func TestATriggerWithoutAnInformerIsAnError(t *testing.T) {
	g := NewWithT(t)
	var none *informer.Informer[*configMap]
	fault := MatchError(ContainSubstring("Options.Triggers[0] is owned: must have an informer"))
	g.Expect(newWith(maps(g, "https://hub"), reconcile.Owned(none))).To(fault)
	g.Expect(newWith(nil, reconcile.Owned(none))).To(And(fault, MatchError(ContainSubstring("informer is nil"))))
	g.Expect(newWith(nil, reconcile.Owned(maps(g, "https://hub")))).To(MatchError(ContainSubstring("informer is nil")))
}
