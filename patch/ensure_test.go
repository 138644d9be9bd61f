package patch_test

import (
	"context"
	"testing"

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

func (*store) GetNamespace() string { return "ns" }

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

func TestEnsureCreatesWhatIsNotThereAndReportsItToTheReconcile(t *testing.T) {
	g := NewWithT(t)
	s := &store{}
	s.answer = configMap("u3")
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	base := configMap("")
	base.ResourceVersion = "4"
	before := base.DeepCopy()
	got, err := patch.Ensure(ctx, always(s), base, nil, setB)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Data).To(Equal(map[string]string{"b": "2"}))
	g.Expect(base).To(Equal(before))
	g.Expect(s.created[0].ResourceVersion).To(BeEmpty(), "a server creates nothing that has one")
	g.Expect(s.options[0].FieldManager).To(Equal("doorman"))
	g.Expect(w.wrote).To(Equal([]string{"c@1"}))
}

func TestEnsurePatchesWhatIsThereNeverARecreatedObject(t *testing.T) {
	g := NewWithT(t)
	s := &store{}
	s.answer = configMap("u3")
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	_, err := patch.Ensure(ctx, always(s), configMap("u3"), nil, setB)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.created).To(BeEmpty())
	g.Expect(s.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u3"},"data":{"b":"2"}}`))
}

func TestEnsureReadsAndPatchesUnderALockWhatTheCacheDidNotKnow(t *testing.T) {
	g := NewWithT(t)
	s := &store{}
	s.answer = configMap("u3")
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	s.has = configMap("u3")
	_, err := patch.Ensure(ctx, always(s), configMap(""), nil, setB)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.requests[0].body).To(MatchJSON(`{"metadata":{"resourceVersion":"5","uid":"u3"},"data":{"b":"2"}}`))
}

func TestEnsureSendsNothingWhenItIsRight(t *testing.T) {
	g := NewWithT(t)
	s := &store{}
	s.answer = configMap("u3")
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	base := configMap("u3")
	setB(base)
	g.Expect(patch.Ensure(ctx, always(s), base, nil, setB)).To(BeIdenticalTo(base))
	g.Expect(s.requests).To(BeEmpty())
}

func TestEnsureIsStaleWhenTheObjectWasDeleted(t *testing.T) {
	g := NewWithT(t)
	s := &store{}
	s.answer = configMap("u3")
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	s.err = apierrors.NewNotFound(configMaps, "c")
	_, err := patch.Ensure(ctx, always(s), configMap("u3"), nil, setB)
	g.Expect(err).To(Satisfy(patch.IsStale))
}

func TestEnsureRefusesBadInputBeforeAnyRequest(t *testing.T) {
	g := NewWithT(t)
	s := &store{}
	s.answer = configMap("u3")
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	_, err := patch.Ensure(ctx, always(s), nil, nil, setB)
	g.Expect(err).To(MatchError(ContainSubstring("must not be nil")))
	_, err = patch.Ensure(ctx, always(s), &corev1.ConfigMap{}, nil, setB)
	g.Expect(err).To(MatchError(ContainSubstring("has no name")))
	_, err = patch.Ensure(ctx, always(s), configMap(""), &patch.Options{Subresource: "status"}, setB)
	g.Expect(err).To(MatchError(ContainSubstring("must be empty")))
	_, err = patch.Ensure(ctx, always(s), configMap(""), &patch.Options{Subresource: "a/b"}, setB)
	g.Expect(err).To(MatchError(ContainSubstring("must be one path segment")))
	_, err = patch.Ensure(ctx, always(s), configMap(""), nil, func(m *corev1.ConfigMap) { m.Name = "d" })
	g.Expect(err).To(MatchError(ContainSubstring("metadata.name")))
	g.Expect(s.created).To(BeEmpty())
}

// derived is copied as a ConfigMap, since it embeds one.
type derived struct{ corev1.ConfigMap }

type derivedStore struct{ recording[*derived] }

func (*derivedStore) Get(_ context.Context, name string, _ metav1.GetOptions) (*derived, error) {
	return nil, apierrors.NewNotFound(configMaps, name)
}

func (*derivedStore) Create(_ context.Context, o *derived, _ metav1.CreateOptions) (*derived, error) {
	return o, nil
}

func TestATypeThatIsCopiedAsAnotherIsAnError(t *testing.T) {
	g := NewWithT(t)
	edit := func(*derived) { t.Error("edited") }
	for _, uid := range []string{"", "u3"} {
		_, err := patch.Ensure(t.Context(), always(&derivedStore{}), &derived{*configMap(uid)}, nil, edit)
		g.Expect(err).To(MatchError(ContainSubstring("the object's DeepCopyObject method returns a different type")), uid)
	}
}

func TestAnEditThatCannotBeEncodedIsAnError(t *testing.T) {
	g := NewWithT(t)
	cached := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "w", "uid": "u2"}}}
	c := &recording[*unstructured.Unstructured]{answer: cached}
	_, err := patch.Merge(t.Context(), always(c), cached, nil, func(w *unstructured.Unstructured) {
		w.Object["spec"] = map[string]any{"callback": func() {}}
	})
	g.Expect(err).To(MatchError(And(ContainSubstring("comparing"), ContainSubstring("unsupported type: func()"))))
	g.Expect(c.requests).To(BeEmpty())
}

func TestEnsureWorksOnFakeClientsetsWhichGiveNoUID(t *testing.T) {
	g := NewWithT(t)
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	client := fake.NewClientset().CoreV1().ConfigMaps
	for range 2 {
		got, err := patch.Ensure(ctx, client, configMap(""), nil, setB)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Data).To(HaveKeyWithValue("b", "2"))
	}
	g.Expect(patch.Delete(ctx, client, configMap(""), nil)).To(Succeed())
	_, err := client("ns").Get(ctx, "c", metav1.GetOptions{})
	g.Expect(err).To(Satisfy(apierrors.IsNotFound))
}

func TestDeleteDeletesTheObjectThatWasReadByItsUID(t *testing.T) {
	g := NewWithT(t)
	s := &store{has: configMap("u3")}
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	g.Expect(patch.Delete(ctx, always(s), configMap("u3"), &patch.Options{Propagation: metav1.DeletePropagationForeground})).
		To(Succeed())
	g.Expect(s.deleted).To(HaveLen(1))
	g.Expect(*s.deleted[0].Preconditions.UID).To(BeEquivalentTo("u3"))
	g.Expect(s.deleted[0].Preconditions.ResourceVersion).To(BeNil())
	g.Expect(*s.deleted[0].PropagationPolicy).To(Equal(metav1.DeletePropagationForeground))
	g.Expect(w.deleted).To(Equal([]string{"c"}))
}

func TestDeleteLocksTheResourceVersionOnRequest(t *testing.T) {
	g := NewWithT(t)
	s := &store{has: configMap("u3")}
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	g.Expect(patch.Delete(ctx, always(s), configMap("u3"), &patch.Options{Lock: true})).To(Succeed())
	g.Expect(*s.deleted[0].Preconditions.ResourceVersion).To(Equal("5"))
}

func TestDeleteOfADeletedObjectOrOneThatIsBeingDeletedIsNoError(t *testing.T) {
	g := NewWithT(t)
	s := &store{has: configMap("u3")}
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	s.has = nil
	g.Expect(patch.Delete(ctx, always(s), configMap("u3"), nil)).To(Succeed())
	now, m := metav1.Now(), configMap("u3")
	m.DeletionTimestamp = &now
	g.Expect(patch.Delete(ctx, always(s), m, nil)).To(Succeed())
	g.Expect(s.deleted).To(HaveLen(1))
	g.Expect(w.deleted).To(BeEmpty())
}

func TestDeleteReturnsARefusedPreconditionAsStale(t *testing.T) {
	g := NewWithT(t)
	s := &store{has: configMap("u3")}
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	s.err = apierrors.NewConflict(configMaps, "c", nil)
	g.Expect(patch.Delete(ctx, always(s), configMap("u3"), nil)).To(MatchError(patch.IsStale, "IsStale"))
}

func TestDeleteRefusesBadInputBeforeAnyRequest(t *testing.T) {
	g := NewWithT(t)
	s := &store{has: configMap("u3")}
	w := &written{}
	ctx := ownwrites.NewContext(t.Context(), w)
	g.Expect(patch.Delete(ctx, always(s), (*corev1.ConfigMap)(nil), nil)).To(MatchError(ContainSubstring("must not be nil")))
	g.Expect(patch.Delete(ctx, always(s), configMap(""), &patch.Options{Lock: true})).To(MatchError(ContainSubstring("to lock on")))
	g.Expect(s.deleted).To(BeEmpty())
}

var configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func blankConfigMap() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("ConfigMap")
	u.SetNamespace("ns")
	u.SetName("c")
	return u
}

func TestDynamicClientsCreatePatchAndDelete(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	client := dynamicfake.NewSimpleDynamicClient(scheme).Resource(configMapResource)
	edit := func(u *unstructured.Unstructured) {
		g.Expect(unstructured.SetNestedField(u.Object, "1", "data", "a")).To(Succeed())
	}
	made, err := patch.Ensure(t.Context(), patch.Dynamic(client), blankConfigMap(), nil, edit)
	g.Expect(err).NotTo(HaveOccurred())
	labelled, err := patch.Merge(t.Context(), client.Namespace, made, nil,
		func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"x": "y"}) })
	g.Expect(err).NotTo(HaveOccurred())
	got, err := patch.Merge(t.Context(), client.Namespace, labelled, nil, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "data", "a")
		u.SetLabels(nil)
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Object["data"]).To(BeEmpty())
	g.Expect(got.GetLabels()).To(BeEmpty())
	g.Expect(patch.Delete(t.Context(), patch.Dynamic(client), got, nil)).To(Succeed())
}

func TestMetadataClientsPatchAndDelete(t *testing.T) {
	g := NewWithT(t)
	scheme := metadatafake.NewTestScheme()
	g.Expect(metav1.AddMetaToScheme(scheme)).To(Succeed())
	cached := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, cached).Resource(configMapResource)
	got, err := patch.Merge(t.Context(), client.Namespace, cached, nil,
		func(o *metav1.PartialObjectMetadata) { metav1.SetMetaDataAnnotation(&o.ObjectMeta, "x", "y") })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Annotations).To(HaveKeyWithValue("x", "y"))
	got, err = patch.Merge(t.Context(), client.Namespace, got, nil, func(o *metav1.PartialObjectMetadata) { o.Finalizers = []string{"a/b"} })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Finalizers).To(Equal([]string{"a/b"}))
	g.Expect(patch.Delete(t.Context(), patch.Metadata(client), cached, nil)).To(Succeed())
}
