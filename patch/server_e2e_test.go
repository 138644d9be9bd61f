//go:build e2e

package patch_test

import (
	"context"
	"encoding/json"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/patch"
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "patch on the real server", Label("e2e"))
}

const widgetDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
`

var (
	server        *e2e.Cluster
	typed         kubernetes.Interface
	untypedClient dynamic.Interface
	space         string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	server, err = e2e.Start(ctx, &e2e.Options{Progress: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(server.Stop()).To(Succeed()) })
	typed, err = kubernetes.NewForConfig(server.Config())
	Expect(err).NotTo(HaveOccurred())
	untypedClient, err = dynamic.NewForConfig(server.Config())
	Expect(err).NotTo(HaveOccurred())
	space, err = server.Namespace(ctx, "patch")
	Expect(err).NotTo(HaveOccurred())
	Expect(server.Apply(ctx, widgetDefinition)).To(Succeed())
})

// widgetClient is a typed client of the custom kind.
func widgetClient() *gentype.Client[*widget] {
	return widgetClients(GinkgoTB(), server.Config()).typed(space)
}

// An oracle is a client whose update the server carries out without any patch.
type oracle[T informer.Object] interface {
	patch.Client[T]
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
	UpdateStatus(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
}

// judged counts what the server said.
type judged struct{ edits, sent, invalid, theirsDiffers, theirsRefused int }

const (
	editsPerKind = 60
	maxTries     = 20
)

// agree makes random edits of an object and asks the server after each whether
// the patch gave what an update with the whole object would have given.
func agree[T informer.Object](ctx context.Context, c oracle[T], name string, o patch.Options, edits ...func(*rand.Rand, T)) {
	GinkgoHelper()
	var j judged
	r := rand.New(rand.NewSource(GinkgoRandomSeed()))
	for tries := 0; j.edits < editsPerKind; tries++ {
		Expect(tries).To(BeNumerically("<", editsPerKind*maxTries), "the object changes all the time")
		cached, err := c.Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		edited := cached.DeepCopyObject().(T)
		for range 1 + r.Intn(3) {
			edits[r.Intn(len(edits))](r, edited)
		}
		if one(ctx, c, cached, edited, o, &j) {
			j.edits++
		}
	}
	GinkgoWriter.Printf("%T %s: %+v\n", *new(T), o.Subresource, j)
	Expect(j.sent).To(BeNumerically(">", editsPerKind/2), "most edits change something")
	Expect(j.invalid).To(BeNumerically("<", editsPerKind/2), "most edits are valid")
}

// one judges a single edit; false means that the object changed meanwhile.
func one[T informer.Object](ctx context.Context, c oracle[T], cached, edited T, o patch.Options, j *judged) bool {
	GinkgoHelper()
	update := c.Update
	if o.Subresource != "" {
		update = c.UpdateStatus
	}
	want, refused := update(ctx, edited, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if apierrors.IsConflict(refused) {
		return false
	}
	theirs, theirError := apimachinery(ctx, c, cached, edited, o)
	o.Lock = true
	sent := &counting[T]{Client: c}
	got, err := patch.Merge(ctx, always(sent), cached, &o, func(t T) {
		reflect.ValueOf(t).Elem().Set(reflect.ValueOf(edited.DeepCopyObject()).Elem())
	})
	if patch.IsStale(err) {
		return false
	}
	j.sent += sent.n
	if refused != nil {
		j.invalid++
		Expect(err).To(HaveOccurred(), "an update was refused: %v", refused)
		return true
	}
	Expect(err).NotTo(HaveOccurred(), "patch %s", sent.last)
	Expect(same(got, want)).To(BeTrue(), "the patch %s gave\n%s\nthe update\n%s", sent.last, jsonOf(got), jsonOf(want))
	if theirError != nil {
		j.theirsRefused++
	} else if !same(theirs, want) {
		j.theirsDiffers++
	}
	return true
}

// apimachinery is what the server makes of apimachinery's patch.
func apimachinery[T informer.Object](ctx context.Context, c oracle[T], cached, edited T, o patch.Options) (T, error) {
	before, after := []byte(jsonOf(cached)), []byte(jsonOf(edited))
	pt := types.StrategicMergePatchType
	data, err := strategicpatch.CreateTwoWayMergePatch(before, after, edited)
	if !strings.HasPrefix(reflect.TypeOf(edited).Elem().PkgPath(), "k8s.io/api/") {
		pt = types.MergePatchType
		data, err = jsonpatch.CreateMergePatch(before, after)
	}
	if err != nil {
		return *new(T), err
	}
	var sub []string
	if o.Subresource != "" {
		sub = []string{o.Subresource}
	}
	opts := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	return c.Patch(ctx, cached.GetName(), pt, data, opts, sub...)
}

// counting notes the requests of a client.
type counting[T informer.Object] struct {
	patch.Client[T]
	n    int
	last []byte
}

func (c *counting[T]) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, sub ...string,
) (T, error) {
	c.n++
	c.last = data
	return c.Client.Patch(ctx, name, pt, data, o, sub...)
}

// same compares what two writes have stored.
func same(a, b informer.Object) bool {
	x, y := a.DeepCopyObject().(informer.Object), b.DeepCopyObject().(informer.Object)
	for _, o := range []informer.Object{x, y} {
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
		o.SetGeneration(0)
		if _, untyped := o.(*unstructured.Unstructured); !untyped {
			o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
	}
	return equality.Semantic.DeepEqual(x, y)
}

func jsonOf(o any) string {
	data, err := json.Marshal(o)
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}
