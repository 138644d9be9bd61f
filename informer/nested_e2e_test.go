//go:build e2e

package informer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

// The server stores and lists an object that is almost as deep as JSON may be,
// and a client that decodes the list, or the event, as a whole refuses it.
func TestE2EANestedObjectStopsNothing(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	server, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	g.Expect(server.Apply(ctx, gadgets)).To(Succeed())
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	requests := kubernetes.NewForConfigOrDie(server.Config()).RESTClient()
	const path = "/apis/example.com/v1/namespaces/default/gadgets"
	create := func(name, spec string) error {
		return requests.Post().AbsPath(path).Body([]byte(`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"` +
			name + `"},"spec":` + spec + `}`)).Do(ctx).Error()
	}
	maps := func(levels int) string { return strings.Repeat(`{"a":`, levels-1) + "{" + strings.Repeat("}", levels) }
	lists := func(levels int) string {
		return `{"a":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}"
	}
	const deepestMaps, deepestLists = 9995, 9998 // managedFields are four levels deeper than maps
	g.Eventually(func() error { return create("maps", maps(deepestMaps)) }, patience).Should(Succeed())

	whole := dynamic.NewForConfigOrDie(server.Config()).Resource(resource)
	_, err = whole.List(ctx, metav1.ListOptions{})
	g.Expect(err).To(MatchError(ContainSubstring("exceeded max depth")), "it is the client")
	g.Expect(requests.Get().AbsPath(path).Do(ctx).Raw()).To(ContainSubstring(maps(deepestMaps)), "and not the server")

	reached, err := cluster.New(server.Config(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	kind, err := cluster.NewKind[*job, *jobList](reached, resource, func(s *runtime.Scheme) error {
		s.AddKnownTypeWithName(resource.GroupVersion().WithKind("Gadget"), &job{})
		s.AddKnownTypeWithName(resource.GroupVersion().WithKind("GadgetList"), &jobList{})
		metav1.AddToGroupVersion(s, resource.GroupVersion())
		return nil
	})
	g.Expect(err).NotTo(HaveOccurred())
	slim := metadata.NewForConfigOrDie(server.Config()).Resource(resource)
	caches := map[string]cachedJobs{}
	for _, size := range []int64{0, 1} {
		o := &informer.Options{PageSize: size, BackoffBase: 100 * time.Millisecond, BackoffCap: time.Second, Kind: "Gadget"}
		how := map[int64]string{0: "", 1: " in pages"}[size]
		caches["cluster"+how] = informer.For(kind.In(""), o)
		caches["gentype"+how] = informer.For(gentype.NewClientWithList[*job, *jobList](resource.Resource,
			kind.In("").GetClient(), metav1.ParameterCodec, "", func() *job { return &job{} },
			func() *jobList { return &jobList{} }), o)
		caches["dynamic"+how] = informer.For(informer.Untyped(whole), o)
		caches["dynamic of a namespace"+how] = informer.For(informer.Untyped(whole.Namespace("default")), o)
		caches["metadata"+how] = informer.For(informer.Untyped(slim), o)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for name, in := range caches {
		defer running(ctx, in)()
		g.Expect(in.WaitForSync(ctx)).To(Succeed(), "%s: %s", name, in.Status().Reason)
	}
	g.Expect(create("lists", lists(deepestLists))).To(Succeed())
	g.Expect(create("more", maps(deepestMaps))).To(Succeed())
	g.Expect(create("flat", "{}")).To(Succeed())
	for name, in := range caches {
		g.Eventually(func() int { return in.Status().Objects }, patience).Should(Equal(5), name)
		g.Expect(in.Status().Problems).To(BeEmpty(), name)
		g.Expect(in.Status().Lists).To(BeNumerically("<=", 2), name)
	}

	// With one level more, the server would store an object that it cannot read
	// itself, and no client could list the kind.
	g.Expect(create("fatal", maps(deepestMaps+1))).NotTo(Succeed())
	g.Expect(requests.Get().AbsPath(path).Do(ctx).Error()).To(HaveOccurred())
	for name, in := range caches {
		g.Eventually(func() string { return in.Status().LastError }, patience).Should(ContainSubstring("exceeded max depth"), name)
		g.Expect(in.Status().Objects).To(Equal(5), "what is known stays readable")
	}
}
