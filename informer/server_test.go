package informer_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
)

// olderNodes is as client generators made them before client-go's gentype.
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

// hidingNodes is what people put around a client.
type hidingNodes struct{ typedcorev1.NodeInterface }

func TestTheServerIsThatOfTheClient(t *testing.T) {
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

func TestTheServerIsUnknownWhereTheClientDoesNotTell(t *testing.T) {
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
	shared := clientinformers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()
	g.Expect(clientgo.Wrap[*corev1.Node](shared, nil).Status()).To(unknown)
}
