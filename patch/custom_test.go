package patch_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/patch"
)

var widgetResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// widgets are clients of the custom kind, made without generated code.
type widgets struct {
	typed   func(namespace string) *gentype.Client[*widget]
	dynamic dynamic.NamespaceableResourceInterface
}

func widgetClients(t testing.TB, config *rest.Config) widgets {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(widgetResource.GroupVersion().WithKind("Widget"), &widget{})
	metav1.AddToGroupVersion(scheme, widgetResource.GroupVersion())
	untyped, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	config = rest.CopyConfig(config)
	version := widgetResource.GroupVersion()
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	return widgets{
		typed: func(namespace string) *gentype.Client[*widget] {
			return gentype.NewClient("widgets", client, runtime.NewParameterCodec(scheme), namespace,
				func() *widget { return &widget{} })
		},
		dynamic: untyped.Resource(widgetResource),
	}
}

func freshWidget(namespace string) *widget {
	w := &widget{Spec: widgetSpec{Bare: map[string]string{}}}
	w.APIVersion, w.Kind, w.Name, w.Namespace = "example.com/v1", "Widget", "recreated", namespace
	return w
}

// recreatedStatus expects that nothing writes the status of an object that was
// recreated since it was read.
func recreatedStatus(ctx context.Context, t testing.TB, c widgets, namespace string) {
	t.Helper()
	g := NewWithT(t)
	of := c.typed(namespace)
	cached, err := of.Create(ctx, freshWidget(namespace), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	untyped, err := c.dynamic.Namespace(namespace).Get(ctx, cached.Name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(of.Delete(ctx, cached.Name, metav1.DeleteOptions{})).To(Succeed())
	_, err = of.Create(ctx, freshWidget(namespace), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	_, err = patch.Status(ctx, c.typed, cached, nil, func(w *widget) { w.Status.Phase = "Wrong" })
	g.Expect(err).To(MatchError(patch.IsStale, "IsStale"))
	_, err = patch.Status(ctx, c.dynamic.Namespace, untyped, nil, func(u *unstructured.Unstructured) {
		g.Expect(unstructured.SetNestedField(u.Object, "Wrong", "status", "phase")).To(Succeed())
	})
	g.Expect(err).To(MatchError(patch.IsStale, "IsStale"))
	_, err = patch.NewApplier(patch.Dynamic(c.dynamic)).Apply(ctx, untyped, &patch.Options{Subresource: "status"},
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "status": map[string]any{"phase": "Wrong"},
			"metadata": map[string]any{"name": cached.Name, "namespace": namespace},
		}})
	g.Expect(err).To(MatchError(patch.IsStale, "IsStale"))

	got, err := of.Get(ctx, cached.Name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.UID).NotTo(Equal(cached.UID))
	g.Expect(got.Status.Phase).To(BeEmpty())
}
