package absent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/apisim"
)

var services = corev1.Resource("services")

const own = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"services \"web\" not found",` +
	`"reason":"NotFound","details":{"name":"web","kind":"services"},"code":404}`

// clientsOf returns functions that GET and DELETE the Service d/web, for each
// type of client.
func clientsOf(g *WithT, config *rest.Config) map[string]func(context.Context) (get, del error) {
	typed, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	untyped, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	bare, err := metadata.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	r := corev1.SchemeGroupVersion.WithResource("services")
	return map[string]func(context.Context) (get, del error){
		"typed": func(ctx context.Context) (get, del error) {
			_, get = typed.CoreV1().Services("d").Get(ctx, "web", metav1.GetOptions{})
			return get, typed.CoreV1().Services("d").Delete(ctx, "web", metav1.DeleteOptions{})
		},
		"dynamic": func(ctx context.Context) (get, del error) {
			_, get = untyped.Resource(r).Namespace("d").Get(ctx, "web", metav1.GetOptions{})
			return get, untyped.Resource(r).Namespace("d").Delete(ctx, "web", metav1.DeleteOptions{})
		},
		"metadata": func(ctx context.Context) (get, del error) {
			_, get = bare.Resource(r).Namespace("d").Get(ctx, "web", metav1.GetOptions{})
			return get, bare.Resource(r).Namespace("d").Delete(ctx, "web", metav1.DeleteOptions{})
		},
	}
}

func TestOnlyTheServersOwnAnswerAboutTheObjectProves(t *testing.T) {
	pages := absenttest.Pages(services, "web")
	other := strings.Replace(own, `"kind":"services"`, `"kind":"services","group":"example.com"`, 1)
	pages = append(pages, absenttest.Page{Name: "a Status about another group", ContentType: "application/json", Body: other})
	for _, page := range pages {
		t.Run(page.Name, func(t *testing.T) { proves(t, page, false) })
	}
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
		t.Run(contentType, func(t *testing.T) { proves(t, absenttest.Page{ContentType: contentType, Body: own}, true) })
	}
}

// proves expects that the page proves to every client that the Service does not
// exist, or to no client.
func proves(t *testing.T, page absenttest.Page, want bool) {
	g := NewWithT(t)
	for kind, ask := range clientsOf(g, page.Config()) {
		get, del := ask(t.Context())
		for _, err := range []error{get, del, fmt.Errorf("wrapped: %w", get), errors.Join(nil, del)} {
			g.Expect(err).To(HaveOccurred())
			g.Expect(absent.Proven(err, services, "web")).To(Equal(want), "%s: %v", kind, err)
		}
	}
}

func TestASimulatedServersAnswerIsProof(t *testing.T) {
	g := NewWithT(t)
	server, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	config := server.Config("test")
	for kind, ask := range clientsOf(g, config) {
		get, del := ask(t.Context())
		g.Expect(absent.Proven(get, services, "web")).To(BeTrue(), "%s: %v", kind, get)
		g.Expect(absent.Proven(del, services, "web")).To(BeTrue(), "%s: %v", kind, del)
		g.Expect(absent.Proven(get, services, "other")).To(BeFalse())
		g.Expect(absent.Proven(get, corev1.Resource("pods"), "web")).To(BeFalse())
		g.Expect(absent.Object(get, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}})).To(BeTrue())
		g.Expect(absent.OfType[*corev1.Service](get, "web")).To(BeTrue())
		g.Expect(absent.OfType[*corev1.Pod](get, "web")).To(BeFalse())
	}
}

func TestAFakesAnswerIsProof(t *testing.T) {
	g := NewWithT(t)
	_, err := fake.NewClientset().AppsV1().Deployments("d").Get(t.Context(), "web", metav1.GetOptions{})
	g.Expect(absent.Proven(err, appsv1.Resource("deployments"), "web")).To(BeTrue())
	g.Expect(absent.OfType[*appsv1.Deployment](err, "web")).To(BeTrue())
	r := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	kinds := map[schema.GroupVersionResource]string{r: "WidgetList"}
	_, err = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme.Scheme, kinds).Resource(r).Namespace("d").
		Get(t.Context(), "web", metav1.GetOptions{})
	g.Expect(absent.Proven(err, r.GroupResource(), "web")).To(BeTrue())
	g.Expect(absent.OfType[*unstructured.Unstructured](err, "web")).To(BeTrue())
	_, err = metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()).Resource(r).Namespace("d").
		Get(t.Context(), "web", metav1.GetOptions{})
	g.Expect(absent.Proven(err, r.GroupResource(), "web")).To(BeTrue())
	g.Expect(absent.OfType[*metav1.PartialObjectMetadata](err, "web")).To(BeTrue())
	bare := apierrors.NewNotFound(schema.GroupResource{}, "web") // the error of a hand-written fake
	g.Expect(absent.Proven(bare, services, "web")).To(BeTrue())
	g.Expect(absent.OfType[*corev1.Service](bare, "web")).To(BeTrue())
}

func TestTheMissingNamespaceOfAnObjectIsAnotherObject(t *testing.T) {
	g := NewWithT(t)
	err := error(apierrors.NewNotFound(corev1.Resource("namespaces"), "web")) // a Service "web" in namespace "web"
	g.Expect(absent.Namespace(err, "web")).To(BeTrue())
	g.Expect(absent.Namespace(err, "other")).To(BeFalse())
	g.Expect(absent.Proven(err, services, "web")).To(BeFalse())
	g.Expect(absent.OfType[*corev1.Service](err, "web")).To(BeFalse())
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Widget"}}
	widget.SetName("web")
	g.Expect(absent.Object(err, widget)).To(BeFalse())
	g.Expect(absent.Object(err, &custom{ObjectMeta: metav1.ObjectMeta{Name: "web"}})).To(BeFalse(), "without a TypeMeta")
	g.Expect(absent.OfType[*custom](err, "web")).To(BeFalse())
	g.Expect(absent.OfType[*corev1.Namespace](err, "web")).To(BeTrue())
	g.Expect(absent.OfType[*metav1.PartialObjectMetadata](err, "web")).To(BeTrue())
	g.Expect(absent.Namespace(apierrors.NewNotFound(services, "web"), "web")).To(BeFalse())
	g.Expect(absent.Namespace(apierrors.NewNotFound(schema.GroupResource{}, "web"), "web")).To(BeFalse())
}

// custom is the Go type of a custom kind.
type custom struct{ metav1.ObjectMeta }

func TestTheGroupOfTheTypeMetaIsCompared(t *testing.T) {
	g := NewWithT(t)
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	widget.SetName("web")
	g.Expect(absent.Object(apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "widgets"}, "web"),
		widget)).To(BeTrue())
	g.Expect(absent.Object(apierrors.NewNotFound(schema.GroupResource{Group: "example.org", Resource: "widgets"}, "web"),
		widget)).To(BeFalse())
}

func TestOtherErrorsAreNoProof(t *testing.T) {
	g := NewWithT(t)
	for _, err := range []error{
		nil, errors.New("not found"), apierrors.NewResourceExpired("x"), apierrors.NewConflict(services, "web", nil),
		apierrors.NewGenericServerResponse(http.StatusNotFound, "get", services, "web", "", 0, true),
		apierrors.NewNotFound(services, ""), &meta.NoKindMatchError{},
	} {
		g.Expect(absent.Proven(err, services, "web")).To(BeFalse(), "%v", err)
		g.Expect(absent.Proven(err, services, "")).To(BeFalse(), "%v", err)
	}
}

// The resource of each kind of k8s.io/api follows from its Go type as the
// server names it.
func TestTheResourcesOfBuiltInTypesAreKnown(t *testing.T) {
	g := NewWithT(t)
	server, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	client, err := discovery.NewDiscoveryClientForConfig(server.Config("test"))
	g.Expect(err).NotTo(HaveOccurred())
	_, lists, err := client.ServerGroupsAndResources()
	g.Expect(err).NotTo(HaveOccurred())
	seen := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		g.Expect(err).NotTo(HaveOccurred())
		for _, r := range list.APIResources {
			typed, err := scheme.Scheme.New(gv.WithKind(r.Kind))
			object, ok := typed.(metav1.Object)
			if err != nil || !ok || !slices.Contains(r.Verbs, "get") || strings.Contains(r.Name, "/") {
				continue
			}
			seen++
			object.SetName("web")
			resource := schema.GroupResource{Group: gv.Group, Resource: r.Name}
			g.Expect(absent.Object(apierrors.NewNotFound(resource, "web"), object)).To(BeTrue(), "%v", resource)
		}
	}
	g.Expect(seen).To(BeNumerically(">", 30))
}
