package informer_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
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
