package informer_test

import (
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
)

func TestBuiltInKindsComeInProtobufOrJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		accepted := make(chan string, 1)
		server := newScript(func(w http.ResponseWriter, r *http.Request) {
			accepted <- r.Header.Get("Accept")
			stream(hold, added(versioned("a", "1", "5")), listEnd("10"))(w, r) // in JSON
		})
		client, _ := clientTo("", server)
		nodes := informer.For(client.CoreV1().Nodes(), nil)
		stop := running(t.Context(), nodes)
		defer stop()
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		g.Expect(<-accepted).To(MatchRegexp(`^application/vnd.kubernetes.protobuf.*,\s*application/json`))
	})
}

// A gadget is a custom resource with a Go type but without generated code.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Size int `json:"size"`
}

func (g *gadget) DeepCopyObject() runtime.Object {
	return &gadget{g.TypeMeta, *g.DeepCopy(), g.Size}
}

type gadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []gadget `json:"items"`
}

func (l *gadgetList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for n := range l.Items {
		out.Items = append(out.Items, *l.Items[n].DeepCopyObject().(*gadget))
	}
	return &out
}

// A kind needs no generated client: gentype makes one from its Go types.
func TestTypedClientWithoutGeneratedCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		made := func(version string, size int) any {
			return map[string]any{
				"apiVersion": "example.com/v1", "kind": "Gadget", "size": size,
				"metadata": map[string]any{"name": "a", "namespace": "d", "uid": "1", "resourceVersion": version},
			}
		}
		page := map[string]any{
			"apiVersion": "example.com/v1", "kind": "GadgetList",
			"metadata": map[string]any{"resourceVersion": "10"}, "items": []any{made("5", 1)},
		}
		server := newScript(refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
			answer(http.StatusOK, page), stream(hold, event("MODIFIED", made("11", 2))))

		known, version := runtime.NewScheme(), schema.GroupVersion{Group: "example.com", Version: "v1"}
		known.AddKnownTypeWithName(version.WithKind("Gadget"), &gadget{})
		known.AddKnownTypeWithName(version.WithKind("GadgetList"), &gadgetList{})
		metav1.AddToGroupVersion(known, version)
		rests, err := rest.RESTClientFor(&rest.Config{
			Host: "http://script", Transport: inProcess{server}, QPS: -1, APIPath: "/apis",
			ContentConfig: rest.ContentConfig{
				GroupVersion: &version, NegotiatedSerializer: serializer.NewCodecFactory(known).WithoutConversion(),
			},
		})
		g.Expect(err).NotTo(HaveOccurred())
		api := gentype.NewClientWithList[*gadget, *gadgetList]("gadgets", rests, runtime.NewParameterCodec(known), "",
			func() *gadget { return &gadget{} }, func() *gadgetList { return &gadgetList{} })
		gadgets := informer.For(api, nil)
		stop := running(t.Context(), gadgets)
		defer stop()
		g.Expect(gadgets.WaitFor(t.Context(), "11")).To(Succeed())
		got, ok := gadgets.Get(types.NamespacedName{Namespace: "d", Name: "a"})
		g.Expect(ok).To(BeTrue())
		g.Expect(got.Size).To(Equal(2))
		g.Expect(server.asked()).To(Equal([]string{"stream", "list 0", "watch 10"}))
	})
}

func TestSelectorsAndPagesAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		asked := make(chan url.Values, 10)
		note := func(then step) step {
			return func(w http.ResponseWriter, r *http.Request) {
				asked <- r.URL.Query()
				then(w, r)
			}
		}
		selected := versioned("a", "1", "5")
		selected.Labels = map[string]string{"zone": "1"}
		nodes, _ := scripted(t, &informer.Options{LabelSelector: "zone=1", FieldSelector: "metadata.name=a", PageSize: 7},
			note(refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)),
			note(list("10", selected)), note(stream(hold, bookmark("11"))))
		stop := running(t.Context(), nodes)
		defer stop()
		g.Expect(nodes.WaitFor(t.Context(), "11")).To(Succeed())
		for _, limit := range []string{"", "7", ""} {
			query := <-asked
			g.Expect(query.Get("labelSelector")).To(Equal("zone=1"))
			g.Expect(query.Get("fieldSelector")).To(Equal("metadata.name=a"))
			g.Expect(query.Get("limit")).To(Equal(limit))
		}
	})
}
