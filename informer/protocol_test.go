package informer_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
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

// A kind needs no generated client: gentype makes one from its Go types.
func TestTypedClientWithoutGeneratedCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := newScript(stream(hold, added(versioned("a", "1", "5")), listEnd("10")))
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://script", Transport: inProcess{server}, QPS: -1})
		g.Expect(err).NotTo(HaveOccurred())
		api := gentype.NewClientWithList[*corev1.Node, *corev1.NodeList]("nodes", client.CoreV1().RESTClient(),
			scheme.ParameterCodec, "", func() *corev1.Node { return &corev1.Node{} }, func() *corev1.NodeList { return &corev1.NodeList{} })
		nodes := informer.For(api, nil)
		stop := running(t.Context(), nodes)
		defer stop()
		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		g.Expect(nodes.Snapshot().Len()).To(Equal(1))
	})
}
