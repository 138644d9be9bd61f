package cluster_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// asking is a reconcile that records the content of its requests.
type asking struct {
	reconciling

	contents []ownwrites.Content
}

func (a *asking) Sending(w ownwrites.Write) func(ownwrites.Outcome, *answer.Object) {
	a.contents = append(a.contents, w.Content)
	return func(ownwrites.Outcome, *answer.Object) {}
}

func TestAReconcileGetsTheContentOfItsRequests(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(&rest.Config{
		Host:      "http://server",
		Transport: transport(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }),
	}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	pods := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().Pods("d")
	var a asking
	ctx := ownwrites.NewContext(context.WithoutCancel(t.Context()), &a)
	_, _ = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	_, _ = pods.Patch(ctx, "a", types.MergePatchType, []byte(`{"status":{}}`), metav1.PatchOptions{}, "status")
	_ = pods.Delete(ctx, "a", metav1.DeleteOptions{})
	g.Expect(a.contents).To(HaveLen(3))
	g.Expect(a.contents[0].Method).To(Equal(http.MethodPost))
	patched := a.contents[1]
	g.Expect(patched.Method + " " + patched.Subresource + " " + patched.Type).To(Equal("PATCH status application/merge-patch+json"))
	for range 2 { // a copy each time, also after it was sent
		body, err := patched.Body()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(io.ReadAll(body)).To(BeEquivalentTo(`{"status":{}}`))
	}
	g.Expect(a.contents[2].Method).To(BeEmpty())
}
