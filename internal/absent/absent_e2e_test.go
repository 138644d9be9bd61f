//go:build e2e

package absent_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
)

const fleeting = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: fleetings.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {plural: fleetings, singular: fleeting, kind: Fleeting}
  versions:
  - name: v1
    served: true
    storage: true
    schema: &any {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v1beta1
    served: true
    storage: false
    schema: *any
`

// An object whose version is no longer served still exists, and must not be
// taken for deleted.
func TestE2EAVersionThatIsNotServedIsNoProof(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	server, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	client, space := dynamic.NewForConfigOrDie(server.Config()), "default"
	g.Expect(server.Apply(ctx, fleeting)).To(Succeed())
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "fleetings"}
	clients := patch.Dynamic(client.Resource(resource))
	fresh := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1beta1", "kind": "Fleeting"}}
	fresh.SetName("web")
	fresh.SetFinalizers([]string{"example.com/f"})
	var made *unstructured.Unstructured
	g.Eventually(func() (err error) {
		made, err = clients(space).Create(ctx, fresh, metav1.CreateOptions{})
		return err
	}, time.Minute).Should(Succeed())
	dying := made.DeepCopy()
	now := metav1.Now()
	dying.SetDeletionTimestamp(&now)

	_, err = client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}).Patch(ctx, "fleetings.example.com", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/versions/1/served","value":false}]`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	live := func() error {
		_, _, err := names.Live[*unstructured.Unstructured](ctx, clients(space), "web")
		return err
	}
	g.Eventually(live, time.Minute).Should(MatchError(apierrors.IsNotFound, "a status 404, and no proof"))
	g.Expect(patch.Delete(ctx, clients, made, nil)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	finalizer := patch.Finalizer[*unstructured.Unstructured, patch.Client[*unstructured.Unstructured]]{
		Name:   "example.com/f",
		Client: func(ns string) patch.Client[*unstructured.Unstructured] { return clients(ns) },
		Clean:  func(context.Context, *unstructured.Unstructured) error { return nil },
	}
	_, _, err = finalizer.Guard(ctx, dying)
	g.Expect(err).To(MatchError(ContainSubstring("removing finalizer")))

	typed := kubernetes.NewForConfigOrDie(server.Config())
	_, err = typed.CoreV1().Pods(space).Get(ctx, "web", metav1.GetOptions{})
	g.Expect(absent.Proven(err, corev1.Resource("pods"), "web")).To(BeTrue(), "%v", err)
	_, err = typed.CoreV1().ConfigMaps("away").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "away"}},
		metav1.CreateOptions{})
	g.Expect(absent.Namespace(err, "away")).To(BeTrue(), "%v", err)
	g.Expect(absent.Proven(err, corev1.Resource("configmaps"), "away")).To(BeFalse())
	resource.Version = "v1"
	_, err = client.Resource(resource).Namespace(space).Get(ctx, "none", metav1.GetOptions{})
	g.Expect(absent.Proven(err, resource.GroupResource(), "none")).To(BeTrue(), "%v", err)
	g.Expect(client.Resource(resource).Namespace(space).Get(ctx, "web", metav1.GetOptions{})).NotTo(BeNil(), "it is alive")
}
