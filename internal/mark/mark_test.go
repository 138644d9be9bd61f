package mark_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat/homeostat/internal/mark"
)

func owner(namespace, name string) mark.Owner {
	return mark.Owner{
		GroupKind:      schema.GroupKind{Group: "example.com", Kind: "Mirror"},
		NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, UID: "6c1c1b4e-8a52-4a55-9c15-6f7d3f4b1f10",
	}
}

func TestAMarkNamesTheOwner(t *testing.T) {
	long := strings.Repeat("a-very-long-name.", 15)[:253]
	for _, o := range []mark.Owner{
		owner("", "m"), owner("shop", "m"), owner("shop", "system:m"), owner("", long), owner("", strings.Repeat(":", 70)),
		{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, NamespacedName: types.NamespacedName{Name: "m"}, UID: "1"},
	} {
		g := NewWithT(t)
		obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"theirs": "yes"}, Annotations: map[string]string{"theirs": "yes"},
		}}
		labels, annotations := obj.Labels, obj.Annotations
		o.Put(obj)
		got, ok := mark.Of(obj)
		g.Expect(ok).To(BeTrue())
		g.Expect(got).To(Equal(o))
		for key, value := range obj.Labels {
			g.Expect(validation.IsValidLabelValue(value)).To(BeEmpty(), "%s=%s", key, value)
		}
		g.Expect(obj.Labels).To(HaveKeyWithValue("theirs", "yes"))
		for _, shared := range []map[string]string{labels, annotations} {
			g.Expect(shared).To(HaveLen(1), "a map that a cache may share is not written to")
		}
		g.Expect(o.Errors()).To(BeEmpty())
	}
}

func TestLongNamesWithOnePrefixHaveDifferentLabels(t *testing.T) {
	g := NewWithT(t)
	begin := strings.Repeat("a", 100)
	var a, b corev1.Secret
	owner("", begin+"a").Put(&a)
	owner("", begin+"b").Put(&b)
	g.Expect(a.Labels[mark.NameLabel]).NotTo(Equal(b.Labels[mark.NameLabel]))
}

func TestWithoutTheUIDThereIsNoMark(t *testing.T) {
	g := NewWithT(t)
	var s corev1.Secret
	owner("shop", "m").Put(&s)
	delete(s.Labels, mark.UIDLabel)
	_, ok := mark.Of(&s)
	g.Expect(ok).To(BeFalse())
}

// The label is for selectors, and any client may change it separately. The
// annotation is one text.
func TestTheAnnotationDecidesTheKind(t *testing.T) {
	g := NewWithT(t)
	var s corev1.Secret
	owner("shop", "m").Put(&s)
	s.Labels[mark.KindLabel] = "Other"
	got, _ := mark.Of(&s)
	g.Expect(got).To(Equal(owner("shop", "m")))
}

// Any client may have written the annotation.
func TestAMarkWithoutAReadableAnnotationHasAUIDOnly(t *testing.T) {
	for _, text := range []string{"", "Mirror", "/m", "Mirror.example.com/", "a/b/c/d", ".example.com/m"} {
		g := NewWithT(t)
		var s corev1.Secret
		owner("shop", "m").Put(&s)
		s.Annotations[mark.OwnerAnnotation] = text
		got, ok := mark.Of(&s)
		g.Expect(ok).To(BeTrue())
		g.Expect(got).To(Equal(mark.Owner{GroupKind: schema.GroupKind{Kind: "Mirror"}, UID: owner("", "").UID}), text)
		g.Expect(got.String()).To(ContainSubstring("with UID"))
	}
}

func TestValuesThatDoNotFitIntoALabelAreNamed(t *testing.T) {
	g := NewWithT(t)
	o := owner("", "m")
	o.UID = "a b"
	g.Expect(o.Errors()).NotTo(BeEmpty())
}
