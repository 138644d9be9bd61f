//go:build e2e

package diff_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/internal/diff"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

const shapeDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: shapes.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shapes, singular: shape, kind: Shape}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
`

// shapes stores documents as objects of a custom kind on a real server.
type shapes struct {
	ctx    context.Context
	client dynamic.ResourceInterface
	n      int
}

func (s *shapes) apply(document []byte, p diff.Patch) ([]byte, error) {
	s.n++
	name := fmt.Sprintf("shape-%d", s.n)
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(`{"apiVersion":"example.com/v1","kind":"Shape"}`)); err != nil {
		return nil, err
	}
	if len(document) > len("{}") { // {"spec":…}
		if err := u.UnmarshalJSON([]byte(`{"apiVersion":"example.com/v1","kind":"Shape",` + string(document[1:]))); err != nil {
			return nil, err
		}
	}
	u.SetName(name)
	stored, err := s.client.Create(s.ctx, u, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	pt := types.MergePatchType
	for _, data := range append([][]byte{p.Data}, p.Fallbacks...) {
		if p.Style == diff.Operations {
			pt = types.JSONPatchType
			data = diff.WithOperations(data, "resourceVersion", stored.GetResourceVersion(), "uid", string(stored.GetUID()))
		}
		var got *unstructured.Unstructured
		if got, err = s.client.Patch(s.ctx, name, pt, data, metav1.PatchOptions{}); err == nil {
			return json.Marshal(map[string]any{"spec": got.Object["spec"]})
		}
	}
	if apierrors.IsInvalid(err) {
		return nil, fmt.Errorf("%w: %w", jsonpatch.ErrTestFailed, err)
	}
	return nil, err
}

func TestE2EWhatAnOlderTypeDoesNotKnowSurvives(t *testing.T) {
	g := NewWithT(t)
	server, err := e2e.Start(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	g.Expect(server.Apply(t.Context(), shapeDefinition)).To(Succeed())
	space, err := server.Namespace(t.Context(), "shapes")
	g.Expect(err).NotTo(HaveOccurred())
	client := dynamic.NewForConfigOrDie(server.Config())
	s := &shapes{ctx: t.Context(), client: client.Resource(schema.GroupVersionResource{
		Group: "example.com", Version: "v1", Resource: "shapes",
	}).Namespace(space)}
	const seed = 6707630596252069773 // other seeds: FuzzOlderTypes
	for edits := 1; edits <= 3; edits++ {
		var count outcome
		for n := range int64(150) {
			if err := olderEdit(rand.New(rand.NewSource(seed+n)), edits, s.apply, &count); err != nil {
				t.Fatalf("%d edits, seed %d: %v", edits, seed+n, err)
			}
		}
		t.Logf("%d edits: %+v", edits, count)
		g.Expect(count.operations).To(BeNumerically(">", 20))
		g.Expect(count.refused).To(BeNumerically("<", count.operations/4))
	}
}
