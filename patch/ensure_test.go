package patch_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/patch"
)

// store is a server of one ConfigMap, or none.
type store struct {
	recording[*corev1.ConfigMap]
	has     *corev1.ConfigMap
	created []*corev1.ConfigMap
	options []metav1.CreateOptions
	deleted []metav1.DeleteOptions
}

var configMaps = schema.GroupResource{Resource: "configmaps"}

func (s *store) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	if s.has == nil {
		return nil, apierrors.NewNotFound(configMaps, name)
	}
	return s.has, nil
}

func (s *store) Create(_ context.Context, o *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error) {
	if s.has != nil {
		return nil, apierrors.NewAlreadyExists(configMaps, o.Name)
	}
	s.created, s.options = append(s.created, o), append(s.options, opts)
	out := o.DeepCopy()
	out.ResourceVersion = "1"
	return out, nil
}

func (s *store) Delete(_ context.Context, name string, opts metav1.DeleteOptions) error {
	s.deleted = append(s.deleted, opts)
	if s.has == nil {
		return apierrors.NewNotFound(configMaps, name)
	}
	return s.err
}

func configMap(uid string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	if uid != "" {
		m.UID, m.ResourceVersion, m.Data = "u3", "5", map[string]string{"a": "1"}
	}
	return m
}

func setB(m *corev1.ConfigMap) {
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	m.Data["b"] = "2"
}

var _ = Describe("Ensure", func() {
	var s *store
	var w *written
	var ctx context.Context

	BeforeEach(func(spec SpecContext) {
		s, w = &store{}, &written{}
		s.answer = configMap("u3")
		ctx = ownwrites.NewContext(spec, w)
	})

	It("creates what is not there and reports it to the turn", func() {
		base := configMap("")
		got, err := patch.Ensure(ctx, always(s), base, nil, setB)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Data).To(Equal(map[string]string{"b": "2"}))
		Expect(base).To(Equal(configMap("")))
		Expect(s.options[0].FieldManager).To(Equal("doorman"))
		Expect(w.wrote).To(Equal([]string{"c@1"}))
	})

	It("patches what is there, never a namesake", func() {
		_, err := patch.Ensure(ctx, always(s), configMap("u3"), nil, setB)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.created).To(BeEmpty())
		Expect(s.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u3"},"data":{"b":"2"}}`))
	})

	It("reads and patches, under a lock, what the cache did not know", func() {
		s.has = configMap("u3")
		_, err := patch.Ensure(ctx, always(s), configMap(""), nil, setB)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.requests[0].body).To(MatchJSON(`{"metadata":{"resourceVersion":"5","uid":"u3"},"data":{"b":"2"}}`))
	})

	It("sends nothing when it is right", func() {
		base := configMap("u3")
		setB(base)
		Expect(patch.Ensure(ctx, always(s), base, nil, setB)).To(BeIdenticalTo(base))
		Expect(s.requests).To(BeEmpty())
	})

	It("asks to look again when the object has gone", func() {
		s.err = apierrors.NewNotFound(configMaps, "c")
		_, err := patch.Ensure(ctx, always(s), configMap("u3"), nil, setB)
		Expect(err).To(Satisfy(patch.IsStale))
	})

	It("refuses bad input before any request", func() {
		_, err := patch.Ensure(ctx, always(s), nil, nil, setB)
		Expect(err).To(MatchError(ContainSubstring("must not be nil")))
		_, err = patch.Ensure(ctx, always(s), &corev1.ConfigMap{}, nil, setB)
		Expect(err).To(MatchError(ContainSubstring("has no name")))
		_, err = patch.Ensure(ctx, always(s), configMap(""), &patch.Options{Subresource: "status"}, setB)
		Expect(err).To(MatchError(ContainSubstring("leave it empty")))
		_, err = patch.Ensure(ctx, always(s), configMap(""), nil, func(m *corev1.ConfigMap) { m.Name = "d" })
		Expect(err).To(MatchError(ContainSubstring("metadata.name")))
		Expect(s.created).To(BeEmpty())
	})

	It("works on fake clientsets, which give no UID", func() {
		client := fake.NewClientset().CoreV1().ConfigMaps
		for range 2 {
			got, err := patch.Ensure(ctx, client, configMap(""), nil, setB)
			Expect(err).NotTo(HaveOccurred())
			Expect(got.Data).To(HaveKeyWithValue("b", "2"))
		}
		Expect(patch.Delete(ctx, client, configMap(""), nil)).To(Succeed())
		_, err := client("ns").Get(ctx, "c", metav1.GetOptions{})
		Expect(err).To(Satisfy(apierrors.IsNotFound))
	})
})

var _ = Describe("Delete", func() {
	var s *store
	var w *written
	var ctx context.Context

	BeforeEach(func(spec SpecContext) {
		s, w = &store{has: configMap("u3")}, &written{}
		ctx = ownwrites.NewContext(spec, w)
	})

	It("deletes the object that was read, by its UID", func() {
		Expect(patch.Delete(ctx, always(s), configMap("u3"), &patch.Options{Propagation: metav1.DeletePropagationForeground})).
			To(Succeed())
		Expect(s.deleted).To(HaveLen(1))
		Expect(*s.deleted[0].Preconditions.UID).To(BeEquivalentTo("u3"))
		Expect(s.deleted[0].Preconditions.ResourceVersion).To(BeNil())
		Expect(*s.deleted[0].PropagationPolicy).To(Equal(metav1.DeletePropagationForeground))
		Expect(w.deleted).To(Equal([]string{"c"}))
	})

	It("locks the resourceVersion on request", func() {
		Expect(patch.Delete(ctx, always(s), configMap("u3"), &patch.Options{Lock: true})).To(Succeed())
		Expect(*s.deleted[0].Preconditions.ResourceVersion).To(Equal("5"))
	})

	It("is content with what is gone or on its way", func() {
		s.has = nil
		Expect(patch.Delete(ctx, always(s), configMap("u3"), nil)).To(Succeed())
		now, m := metav1.Now(), configMap("u3")
		m.DeletionTimestamp = &now
		Expect(patch.Delete(ctx, always(s), m, nil)).To(Succeed())
		Expect(s.deleted).To(HaveLen(1))
		Expect(w.deleted).To(BeEmpty())
	})

	It("hands a refused precondition on as a value", func() {
		s.err = apierrors.NewConflict(configMaps, "c", nil)
		Expect(patch.Delete(ctx, always(s), configMap("u3"), nil)).To(MatchError(patch.IsStale, "IsStale"))
	})

	It("refuses bad input before any request", func() {
		Expect(patch.Delete(ctx, always(s), (*corev1.ConfigMap)(nil), nil)).To(MatchError(ContainSubstring("must not be nil")))
		Expect(patch.Delete(ctx, always(s), configMap(""), &patch.Options{Lock: true})).To(MatchError(ContainSubstring("to lock on")))
		Expect(s.deleted).To(BeEmpty())
	})
})

var _ = Describe("Dynamic and metadata clients", func() {
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

	blank := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind("ConfigMap")
		u.SetNamespace("ns")
		u.SetName("c")
		return u
	}

	It("create, patch and delete unstructured objects", func(ctx SpecContext) {
		scheme := runtime.NewScheme()
		Expect(corev1.AddToScheme(scheme)).To(Succeed())
		client := dynamicfake.NewSimpleDynamicClient(scheme).Resource(gvr)
		edit := func(u *unstructured.Unstructured) {
			Expect(unstructured.SetNestedField(u.Object, "1", "data", "a")).To(Succeed())
		}
		made, err := patch.Ensure(ctx, patch.Dynamic(client), blank(), nil, edit)
		Expect(err).NotTo(HaveOccurred())
		labelled, err := patch.Merge(ctx, client.Namespace, made, nil,
			func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"x": "y"}) })
		Expect(err).NotTo(HaveOccurred())
		got, err := patch.Merge(ctx, client.Namespace, labelled, nil, func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "data", "a")
			u.SetLabels(nil)
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Object["data"]).To(BeEmpty())
		Expect(got.GetLabels()).To(BeEmpty())
		Expect(patch.Delete(ctx, patch.Dynamic(client), got, nil)).To(Succeed())
	})

	It("patch and delete by metadata alone", func(ctx SpecContext) {
		scheme := metadatafake.NewTestScheme()
		Expect(metav1.AddMetaToScheme(scheme)).To(Succeed())
		cached := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		}
		client := metadatafake.NewSimpleMetadataClient(scheme, cached).Resource(gvr)
		got, err := patch.Merge(ctx, client.Namespace, cached, nil,
			func(o *metav1.PartialObjectMetadata) { metav1.SetMetaDataAnnotation(&o.ObjectMeta, "x", "y") })
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Annotations).To(HaveKeyWithValue("x", "y"))
		got, err = patch.Merge(ctx, client.Namespace, got, nil, func(o *metav1.PartialObjectMetadata) { o.Finalizers = []string{"a/b"} })
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Finalizers).To(Equal([]string{"a/b"}))
		Expect(patch.Delete(ctx, patch.Metadata(client), cached, nil)).To(Succeed())
	})
})
