package patch_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/patch"
)

func TestDiffNamesWhatChangedBeforeAndAfterWithoutTheServersNoise(t *testing.T) {
	g := NewWithT(t)
	before, after := node(), node()
	after.ResourceVersion, after.Generation = "99", 4
	after.Spec.Unschedulable = true
	after.Labels = map[string]string{"zone": "b"}
	g.Expect(patch.Diff(before, after)).To(Equal(
		"metadata.labels.zone: \"a\" → \"b\"\nspec.unschedulable: none → true"))
	g.Expect(patch.Diff(before, before)).To(BeEmpty())
}

func TestDiffKeepsTheDataOfSecretsToItself(t *testing.T) {
	g := NewWithT(t)
	before := &corev1.Secret{Data: map[string][]byte{"password": []byte("hunter2")}}
	after := &corev1.Secret{
		Data:       map[string][]byte{"password": []byte("hunter3"), "new": []byte("hunter4")},
		StringData: map[string]string{"plain": "hunter5"},
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"last-applied": "hunter6"}},
	}
	got := patch.Diff(before, after)
	g.Expect(got).To(ContainSubstring("data.password: (14 bytes) → (14 bytes)"))
	g.Expect(got).To(ContainSubstring("stringData.plain"))
	for _, secret := range []string{"hunter", "aHVudGVy"} {
		g.Expect(got).NotTo(ContainSubstring(secret))
		g.Expect(patch.Diff(after, before)).NotTo(ContainSubstring(secret))
		g.Expect(patch.Diff(untyped(before), untyped(after))).NotTo(ContainSubstring(secret))
	}
}

// An object with metadata only does not show that it is a Secret.
func TestDiffDoesNotShowTheCopyOfAnObjectInAnAnnotation(t *testing.T) {
	g := NewWithT(t)
	bare := func(value string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: value, "a": "b" + value}},
		}
	}
	g.Expect(patch.Diff(bare("hunter2"), bare("hunter33"))).To(Equal("metadata.annotations.a: \"bhunter2\" → \"bhunter33\"\n" +
		"metadata.annotations." + corev1.LastAppliedConfigAnnotation + ": (9 bytes) → (10 bytes)"))
}

func TestDiffShowsWhatIsNoSecretOfASecret(t *testing.T) {
	after := &corev1.Secret{Type: corev1.SecretTypeOpaque, ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	NewWithT(t).Expect(patch.Diff(&corev1.Secret{}, after)).To(Equal(
		"metadata.labels.a: none → \"b\"\ntype: none → \"Opaque\""))
}

func TestDiffCutsLongValuesAndManyLines(t *testing.T) {
	g := NewWithT(t)
	after := &corev1.ConfigMap{Data: map[string]string{}}
	for _, r := range strings.Repeat("abcdefghij", 10) {
		after.Data[string(r)+strings.Repeat("k", len(after.Data))] = strings.Repeat("v", 1000)
	}
	lines := strings.Split(patch.Diff(&corev1.ConfigMap{}, after), "\n")
	g.Expect(len(lines)).To(BeNumerically("<=", 65))
	g.Expect(len(lines[0])).To(BeNumerically("<", 300))
	g.Expect(lines[0]).To(HaveSuffix("vvv…"))
}

func TestDiffSaysCreatedOrDeleted(t *testing.T) {
	g := NewWithT(t)
	g.Expect(patch.Diff((*corev1.Node)(nil), node())).To(Equal("created"))
	g.Expect(patch.Diff(node(), (*corev1.Node)(nil))).To(Equal("deleted"))
	g.Expect(patch.Diff((*corev1.Node)(nil), (*corev1.Node)(nil))).To(BeEmpty())
	g.Expect(patch.Diff(nil, node())).To(Equal("created"))
}

// untyped is the Secret as a dynamic client has it.
func untyped(s *corev1.Secret) *unstructured.Unstructured {
	data := map[string]any{}
	for k, v := range s.Data {
		data[k] = string(v)
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": data}}
}
