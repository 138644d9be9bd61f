package informer_test

import (
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
)

var widgetsResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func mappingOf[T informer.Object](g *WithT, in *informer.Informer[T]) meta.RESTMapping {
	m, err := in.Mapping()
	g.Expect(err).NotTo(HaveOccurred())
	return m
}

func TestClientsTellWhatTheyRead(t *testing.T) {
	g := NewWithT(t)
	config := &rest.Config{Host: "https://localhost:1"}
	real, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	untyped, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	meta1, err := metadata.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	for _, client := range []kubernetes.Interface{real, fake.NewClientset()} {
		nodes := mappingOf(g, informer.For(client.CoreV1().Nodes(), nil))
		g.Expect(nodes.Resource).To(Equal(corev1.SchemeGroupVersion.WithResource("nodes")))
		g.Expect(nodes.GroupVersionKind).To(Equal(corev1.SchemeGroupVersion.WithKind("Node")))
		g.Expect(nodes.Scope).To(Equal(meta.RESTScopeRoot))
		deployments := mappingOf(g, informer.For(client.AppsV1().Deployments(""), nil))
		g.Expect(deployments.GroupVersionKind).To(Equal(appsv1.SchemeGroupVersion.WithKind("Deployment")))
		g.Expect(deployments.Resource).To(Equal(appsv1.SchemeGroupVersion.WithResource("deployments")))
		g.Expect(deployments.Scope).To(Equal(meta.RESTScopeNamespace), "of all namespaces")
	}
	widgets := untyped.Resource(widgetsResource)
	for name, in := range map[string]*informer.Informer[*unstructured.Unstructured]{
		"dynamic": informer.For(informer.Untyped(widgets), nil),
		"fake": informer.For(informer.Untyped(dynamicfake.NewSimpleDynamicClientWithCustomListKinds(
			runtime.NewScheme(), map[schema.GroupVersionResource]string{widgetsResource: "WidgetList"}).Resource(widgetsResource)), nil),
	} {
		m := mappingOf(g, in)
		g.Expect(m.Resource).To(Equal(widgetsResource), name)
		g.Expect(m.GroupVersionKind).To(Equal(schema.GroupVersionKind{Group: "example.com", Version: "v1"}), name)
		g.Expect(m.Scope).To(BeNil(), name)
	}
	g.Expect(mappingOf(g, informer.For(informer.Untyped(meta1.Resource(widgetsResource)), nil)).Resource).To(Equal(widgetsResource))
	g.Expect(mappingOf(g, informer.For(informer.Untyped(widgets.Namespace("d")), nil)).Scope).To(Equal(meta.RESTScopeNamespace))
	g.Expect(mappingOf(g, informer.ForNamespaces(func(namespace string) informer.Client[*unstructured.Unstructured, *unstructured.UnstructuredList] {
		return informer.Untyped(widgets.Namespace(namespace))
	}, nil)).Scope).To(Equal(meta.RESTScopeNamespace))
	for _, scope := range []meta.RESTScope{meta.RESTScopeRoot, meta.RESTScopeNamespace} {
		in := informer.For(informer.Untyped(widgets), &informer.Options{Scope: scope.Name()})
		g.Expect(mappingOf(g, in).Scope).To(Equal(scope))
	}
	g.Expect(informer.For(informer.Untyped(widgets), &informer.Options{Scope: "Cluster"}).WaitForSync(t.Context())).To(
		MatchError(ContainSubstring("Scope")))
}

func TestAMisspeltKindIsAnError(t *testing.T) {
	g := NewWithT(t)
	untyped, err := dynamic.NewForConfig(&rest.Config{Host: "https://localhost:1"})
	g.Expect(err).NotTo(HaveOccurred())
	for kind, fault := range map[string]string{"Widget": "", "Wdget": `the client reads "widgets"`, "widget": `the client reads "widgets"`} {
		_, err := informer.For(informer.Untyped(untyped.Resource(widgetsResource)), &informer.Options{Kind: kind}).Mapping()
		if fault == "" {
			g.Expect(err).NotTo(HaveOccurred(), kind)
		} else {
			g.Expect(err).To(MatchError(ContainSubstring(fault)), kind)
		}
	}
	_, err = informer.For(fake.NewClientset().CoreV1().Nodes(), &informer.Options{Kind: "Nodee"}).Mapping()
	g.Expect(err).To(MatchError(ContainSubstring(`Options.Kind is "Nodee"`)))
}

// Every kind of client-go's clientset is known with its group and scope.
func TestBuiltInKindsAreKnownByHeart(t *testing.T) {
	g := NewWithT(t)
	kinds := 0
	for group := range reflect.TypeFor[kubernetes.Interface]().Methods() {
		if group.Type.NumOut() != 1 || group.Type.Out(0).Kind() != reflect.Interface {
			continue
		}
		for kind := range group.Type.Out(0).Methods() {
			if kind.Type.NumOut() != 1 || kind.Type.Out(0).Kind() != reflect.Interface {
				continue
			}
			get, ok := kind.Type.Out(0).MethodByName("Get")
			if !ok || kind.Name == "RESTClient" {
				continue
			}
			kinds++
			object := reflect.New(get.Type.Out(0).Elem()).Interface().(runtime.Object)
			known, _, err := scheme.Scheme.ObjectKinds(object)
			g.Expect(err).NotTo(HaveOccurred())
			gvk, clusterScoped, ok := informer.BuiltIn(get.Type.Out(0))
			g.Expect(ok).To(BeTrue())
			g.Expect(known).To(ContainElement(gvk))
			if clusterScoped != (kind.Type.NumIn() == 0) {
				t.Errorf("%s: cluster-scoped: %v", gvk, clusterScoped)
			}
		}
	}
	g.Expect(kinds).To(BeNumerically(">", 60))
	_, _, ok := informer.BuiltIn(reflect.TypeFor[*metav1.PartialObjectMetadata]())
	g.Expect(ok).To(BeFalse())
}
