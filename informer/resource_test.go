package informer_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

func TestTheResourceIsThatOfTheClient(t *testing.T) {
	g := NewWithT(t)
	config := &rest.Config{Host: "https://rancher.example:8443/k8s/clusters/c-1/"}
	typed, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	untyped, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	slim, err := metadata.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	fakes := fake.NewClientset()
	nodes, deployments := schema.GroupResource{Resource: "nodes"}, schema.GroupResource{Group: "apps", Resource: "deployments"}
	gvr := deployments.WithVersion("v1")

	g.Expect(informer.For(typed.CoreV1().Nodes(), nil).Resource()).To(Equal(nodes))
	g.Expect(informer.For(typed.AppsV1().Deployments("d"), nil).Resource()).To(Equal(deployments))
	g.Expect(informer.ForNamespaces(typed.AppsV1().Deployments, nil).Resource()).To(Equal(deployments))
	g.Expect(informer.For(hidingNodes{typed.CoreV1().Nodes()}, nil).Resource()).To(Equal(nodes))
	g.Expect(informer.For(informer.Untyped(untyped.Resource(gvr)), nil).Resource()).To(Equal(deployments))
	g.Expect(informer.For(informer.Untyped(slim.Resource(gvr).Namespace("d")), nil).Resource()).To(Equal(deployments))
	g.Expect(informer.For(fakes.AppsV1().Deployments("d"), nil).Resource()).To(Equal(deployments))
	g.Expect(informer.For(hidingNodes{fakes.CoreV1().Nodes()}, nil).Resource()).To(Equal(nodes))
	g.Expect(informer.For(informer.Untyped(dynamicfake.NewSimpleDynamicClient(scheme.Scheme).Resource(gvr)), nil).
		Resource()).To(Equal(deployments))
}

func TestTheResourceIsThatOfTheGoTypeWhereTheClientDoesNotTell(t *testing.T) {
	g := NewWithT(t)
	nodes := schema.GroupResource{Resource: "nodes"}
	g.Expect(informer.For(&hidingNodes{}, nil).Resource()).To(Equal(nodes))
	g.Expect(informer.For(&olderNodes{}, nil).Resource()).To(Equal(nodes))
	factory := clientinformers.NewSharedInformerFactory(fake.NewClientset(), 0)
	g.Expect(clientgo.Wrap[*corev1.Node](factory.Core().V1().Nodes().Informer(), nil).Resource()).To(Equal(nodes))
	g.Expect(clientgo.Wrap[*appsv1.Deployment](factory.Apps().V1().Deployments().Informer(), nil).Resource()).
		To(Equal(schema.GroupResource{Group: "apps", Resource: "deployments"}))
	g.Expect(clientgo.Wrap[*unstructured.Unstructured](factory.Core().V1().Nodes().Informer(), nil).Resource()).To(BeZero())
}

// What clients are wrapped in has fields of its own, some by the names of client-go's.
type (
	numbered struct {
		typedcorev1.NodeInterface
		namespace, resource int
	}
	spelled struct {
		typedcorev1.NodeInterface
		resource string
	}
	requesting struct {
		typedcorev1.NodeInterface
		resource int
	}
	stringer fmt.Stringer
	crowded  struct {
		stringer
		Other fmt.Stringer
		other any //nolint:unused // a field of its own, which is looked through
		dynamic.ResourceInterface
	}
)

func (*requesting) GetClient() rest.Interface { return nil }

func TestFieldsOfWrappersAreTheirOwn(t *testing.T) {
	g := NewWithT(t)
	nodes := fake.NewClientset().CoreV1().Nodes()
	for _, in := range []*informer.Informer[*corev1.Node]{
		informer.For(&numbered{nodes, 1, 2}, nil),
		informer.For(&spelled{nodes, "pods"}, nil),
		informer.For(&requesting{nodes, 1}, nil),
	} {
		m := mappingOf(g, in)
		g.Expect(m.Resource).To(Equal(corev1.SchemeGroupVersion.WithResource("nodes")))
		g.Expect(m.Scope).To(Equal(meta.RESTScopeRoot))
	}
	client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme).Resource(widgetsResource)
	in := informer.For(informer.Untyped(crowded{ResourceInterface: client}), nil)
	g.Expect(in.Resource()).To(Equal(widgetsResource.GroupResource()))
}
