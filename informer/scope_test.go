package informer_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/homeostat/homeostat/internal/clients"
)

func TestInScope(t *testing.T) {
	client := fake.NewClientset().CoreV1()
	for name, c := range map[string]struct {
		namespace string
		options   informer.Options
		key       types.NamespacedName
		expected  bool
	}{
		"all namespaces": {"", informer.Options{}, types.NamespacedName{Namespace: "a", Name: "x"}, true},
		"its namespace":  {"a", informer.Options{}, types.NamespacedName{Namespace: "a", Name: "x"}, true},
		"another":        {"a", informer.Options{}, types.NamespacedName{Namespace: "b", Name: "x"}, false},
		"labels are no matter of keys": {
			"", informer.Options{LabelSelector: "a=b"}, types.NamespacedName{Namespace: "a", Name: "x"}, true,
		},
		"its name": {
			"", informer.Options{FieldSelector: "metadata.name=x"}, types.NamespacedName{Namespace: "a", Name: "x"}, true,
		},
		"another name": {
			"", informer.Options{FieldSelector: "metadata.name=x"}, types.NamespacedName{Namespace: "a", Name: "y"}, false,
		},
		"any namespace but its": {
			"",
			informer.Options{FieldSelector: "spec.nodeName=n,metadata.namespace!=a"},
			types.NamespacedName{Namespace: "a", Name: "x"},
			false,
		},
		"any namespace but another": {
			"", informer.Options{FieldSelector: "metadata.namespace!=b"}, types.NamespacedName{Namespace: "a", Name: "x"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := informer.For(client.Pods(c.namespace), &c.options)
			NewWithT(t).Expect(in.Parts().InScope(c.key)).To(Equal(c.expected))
		})
	}
}

// A mapper may have combined the name of a Node with the namespace of a Pod.
func TestAKeyWithANamespaceThatTheKindDoesNotHaveIsOutOfScope(t *testing.T) {
	g := NewWithT(t)
	in := informer.For(fake.NewClientset().CoreV1().Nodes(), nil)
	g.Expect(in.Parts().InScope(types.NamespacedName{Name: "x"})).To(BeTrue())
	g.Expect(in.Parts().InScope(types.NamespacedName{Namespace: "a", Name: "x"})).To(BeFalse())
}

func TestMatchesComparesWithTheScope(t *testing.T) {
	web := pod("d", "web-1")
	web.Labels = map[string]string{"app": "web"}
	web.Spec.NodeName, web.Spec.HostNetwork = "node-1", true
	for name, c := range map[string]struct {
		namespace, labels, fields string
		matches                   bool
	}{
		"everything":              {"", "", "", true},
		"the client's namespace":  {"d", "", "", true},
		"a client of another":     {"e", "", "", false},
		"the label":               {"", "app=web", "", true},
		"another label":           {"", "app!=web", "", false},
		"the name":                {"", "", "metadata.name=web-1", true},
		"another namespace":       {"", "", "metadata.namespace=e", false},
		"the node":                {"", "", "spec.nodeName=node-1,metadata.namespace=d", true},
		"another node":            {"", "", "spec.nodeName=node-2", false},
		"a field that is not set": {"", "", "status.phase=", true},
		"a boolean":               {"", "", "spec.hostNetwork=true", true},
		"a boolean, negated":      {"", "", "spec.hostNetwork!=true", false},
		"an old name":             {"", "", "spec.host=node-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			in := informer.For(fake.NewClientset().CoreV1().Pods(c.namespace),
				&informer.Options{LabelSelector: c.labels, FieldSelector: c.fields})
			matches, known := in.Matches(web)
			NewWithT(t).Expect(known).To(BeTrue())
			NewWithT(t).Expect(matches).To(Equal(c.matches))
		})
	}
}

// Servers select by values that are not always in the object, and by some that
// no client knows.
func TestWhatDecidesNothingIsNotKnown(t *testing.T) {
	clients := fake.NewClientset()
	pods := func(selector string) func(metav1.Object) (bool, bool) {
		return informer.For(clients.CoreV1().Pods(""), &informer.Options{FieldSelector: selector}).Matches
	}
	jobs := informer.For(clients.BatchV1().Jobs(""), &informer.Options{FieldSelector: "status.successful=1"})
	done := &batchv1.Job{Status: batchv1.JobStatus{Succeeded: 1}}
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	for name, c := range map[string]struct {
		of             func(metav1.Object) (bool, bool)
		object         metav1.Object
		matches, known bool
	}{
		"a number of another name":          {jobs.Matches, done, true, true},
		"one that is not set":               {jobs.Matches, &batchv1.Job{}, false, true},
		"a field of a newer server":         {pods("spec.priority=1"), pod("d", "x"), false, false},
		"beside a field that decides":       {pods("spec.priority=1,spec.nodeName=n"), pod("d", "x"), false, true},
		"beside a field that does not":      {pods("spec.priority=1,spec.nodeName="), pod("d", "x"), false, false},
		"metadata only":                     {pods("spec.nodeName=n"), metadata, false, false},
		"metadata only, of another name":    {pods("spec.nodeName=n,metadata.name=y"), metadata, false, true},
		"an untyped object":                 {pods("spec.hostNetwork=false"), &unstructured.Unstructured{Object: map[string]any{}}, true, true},
		"an untyped object with a boolean":  {pods("spec.hostNetwork=false"), &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hostNetwork": true}}}, false, true},
		"a field that is never of one name": {pods("status.podIPs=10.0.0.1"), pod("d", "x"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			matches, known := c.of(c.object)
			g.Expect(known).To(Equal(c.known))
			g.Expect(matches).To(Equal(c.matches))
		})
	}
}

// unshown is a client, written by hand, that does not show its namespace.
type unshown struct {
	pods func() typedcorev1.PodInterface
}

func (u unshown) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Pod, error) {
	return u.pods().Get(ctx, name, o)
}

func (u unshown) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	return u.pods().List(ctx, o)
}

func (u unshown) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return u.pods().Watch(ctx, o)
}

func TestANamespaceThatAClientDoesNotShowIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pods := fake.NewClientset(pod("a", "x")).CoreV1().Pods("a")
		in := informer.For(unshown{func() typedcorev1.PodInterface { return pods }}, &informer.Options{LabelSelector: "app!=db"})
		answers := func(p *corev1.Pod) []bool {
			matches, known := in.Matches(p)
			return []bool{matches, known}
		}
		g.Expect(answers(pod("a", "y"))).To(Equal([]bool{false, false}), "before the client has returned an object")
		stop := running(t.Context(), in)
		defer stop()
		g.Expect(in.WaitForSync(t.Context())).To(Succeed())
		g.Expect(answers(pod("a", "y"))).To(Equal([]bool{true, true}))
		g.Expect(answers(pod("b", "y"))).To(Equal([]bool{false, false}))
		db := pod("b", "y")
		db.Labels = map[string]string{"app": "db"}
		g.Expect(answers(db)).To(Equal([]bool{false, true}), "the label decides")
	})
}

var widgetsResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func mappingOf[T informer.Object](g *WithT, in *informer.Informer[T]) meta.RESTMapping {
	m, err := in.Parts().Mapping()
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
		_, err := informer.For(informer.Untyped(untyped.Resource(widgetsResource)), &informer.Options{Kind: kind}).Parts().Mapping()
		if fault == "" {
			g.Expect(err).NotTo(HaveOccurred(), kind)
		} else {
			g.Expect(err).To(MatchError(ContainSubstring(fault)), kind)
		}
	}
	_, err = informer.For(fake.NewClientset().CoreV1().Nodes(), &informer.Options{Kind: "Nodee"}).Parts().Mapping()
	g.Expect(err).To(MatchError(ContainSubstring(`Options.Kind is "Nodee"`)))
}

// The plural of a kind is a name that its author has chosen, most often the
// regular English one, such as gateways, where client-go guesses gatewaies.
func TestAKindWithAnEnglishPluralIsNoMisspelling(t *testing.T) {
	g := NewWithT(t)
	untyped, err := dynamic.NewForConfig(&rest.Config{Host: "https://localhost:1"})
	g.Expect(err).NotTo(HaveOccurred())
	kindOf := func(plural, kind string) error {
		resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural}
		_, err := informer.For(informer.Untyped(untyped.Resource(resource)), &informer.Options{Kind: kind}).Parts().Mapping()
		return err
	}
	for plural, kind := range map[string]string{
		"gateways": "Gateway", "switches": "Switch", "boxes": "Box", "meshes": "Mesh", "topazes": "Topaz",
		"redis": "Redis", "dnses": "DNS", "policies": "Policy", "proxies": "Proxy", "ingresses": "Ingress",
	} {
		g.Expect(kindOf(plural, kind)).To(Succeed(), kind)
	}
	for plural, kind := range map[string]string{"gateways": "Gatway", "switches": "switch", "policies": "Police"} {
		g.Expect(kindOf(plural, kind)).To(MatchError(ContainSubstring("the client reads %q", plural)), kind)
	}
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
			gvk, clusterScoped, ok := clients.BuiltIn(get.Type.Out(0))
			g.Expect(ok).To(BeTrue())
			g.Expect(known).To(ContainElement(gvk))
			if clusterScoped != (kind.Type.NumIn() == 0) {
				t.Errorf("%s: cluster-scoped: %v", gvk, clusterScoped)
			}
		}
	}
	g.Expect(kinds).To(BeNumerically(">", 60))
	_, _, ok := clients.BuiltIn(reflect.TypeFor[*metav1.PartialObjectMetadata]())
	g.Expect(ok).To(BeFalse())
}

func TestTheResourceComesFromTheClient(t *testing.T) {
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

func TestTheResourceComesFromTheGoTypeIfTheClientDoesNotShowIt(t *testing.T) {
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

// Types that wrap a client have their own fields, some with the same names as
// client-go's.
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
