package informer_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
)

// An aggregated API server may keep its objects in memory and count no
// versions, as Antrea's does. The program's author cannot mend it, so the error
// says what is so and what to use in place of an informer.
func TestAKindWithoutResourceVersionsIsNamed(t *testing.T) {
	const kind = `"kind":"GroupAssociation","apiVersion":"controlplane.antrea.io/v1beta2"`
	list := func(metadata, items string) string {
		return `{"kind":"GroupAssociationList","apiVersion":"controlplane.antrea.io/v1beta2","metadata":{` + metadata +
			`},"items":` + items + `}`
	}
	for name, c := range map[string]struct{ list, stream string }{
		"an object":             {list("", `[{`+kind+`,"metadata":{"name":"a"}}]`), ""},
		"without objects":       {list("", `[]`), ""},
		"the resourceVersion 0": {list(`"resourceVersion":"0"`, `[]`), ""},
		"a streaming list": {list("", `[]`), `{"type":"BOOKMARK","object":{` + kind + `,"metadata":{` +
			`"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				client := dynamic.NewForConfigOrDie(&rest.Config{Host: "http://server", QPS: -1, Transport: transportFunc(
					func(r *http.Request) (*http.Response, error) {
						body := c.list
						if r.URL.Query().Has("watch") {
							body = c.stream
						}
						return answered(r, http.StatusOK, "application/json", body), nil
					},
				)}).Resource(schema.GroupVersionResource{
					Group: "controlplane.antrea.io", Version: "v1beta2", Resource: "groupassociations",
				})
				in := informer.For[*unstructured.Unstructured](informer.Untyped(client), nil)
				defer running(context.WithoutCancel(t.Context()), in)()
				<-time.After(2 * time.Minute)
				reason := in.Status().Reason
				g.Expect(in.HasSynced()).To(BeFalse())
				g.Expect(reason).To(ContainSubstring(`groupassociations.controlplane.antrea.io were listed without a resourceVersion`))
				g.Expect(reason).To(ContainSubstring("so no informer can watch or cache them"))
				g.Expect(reason).To(ContainSubstring("names.Live"))
			})
		})
	}
}
