package intern_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/intern"
)

func textPlace(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s))) }

// Decoders leave spare capacity in the lists that they append to.
func TestListsHaveNoRoomToSpare(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: slices.Grow([]corev1.Container{{Name: "a"}}, 9)}}
	s.Object(p)
	g.Expect(p.Spec.Containers).To(HaveCap(1))
	g.Expect(p.Spec.Containers).To(Equal([]corev1.Container{{Name: "a"}}))
	u := &unstructured.Unstructured{Object: map[string]any{"list": slices.Grow([]any{"a"}, 9)}}
	s.Object(u)
	g.Expect(u.Object["list"].([]any)).To(HaveCap(1))
	g.Expect(u.Object).To(Equal(map[string]any{"list": []any{"a"}}))
}

// The closest relative of a Pod is one of the same controller, even if a
// different one came first.
func TestAReplicaTakesSmallPartsFromOneOfItsController(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	yes := true
	of := func(owner string, n int) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(owner, "-", n), OwnerReferences: []metav1.OwnerReference{
			{Kind: "ReplicaSet", Name: owner, UID: types.UID("uid-" + owner), Controller: &yes},
		}}}
		p.Spec.Hostname = strings.Clone("host-of-" + owner)
		s.Object(p)
		return p
	}
	all := []*corev1.Pod{of("a", 1), of("b", 1), of("b", 2), of("a", 2)}
	g.Expect(textPlace(all[2].Spec.Hostname)).To(Equal(textPlace(all[1].Spec.Hostname)))
	g.Expect(textPlace(all[3].Spec.Hostname)).To(Equal(textPlace(all[0].Spec.Hostname)))
}

// Two containers often differ only in their names. The first container has no
// element before it.
func TestAnElementTakesSmallPartsFromTheOneBefore(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	container := func(name string, period int32) corev1.Container {
		return corev1.Container{Name: name, Command: []string{"run"}, LivenessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}},
			PeriodSeconds: period,
		}}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", 1), container("b", 2)}}}
	want := p.DeepCopy()
	s.Object(p)
	g.Expect(p).To(Equal(want))
	a, b := p.Spec.Containers[0], p.Spec.Containers[1]
	g.Expect(place(b.Command)).To(Equal(place(a.Command)))
	g.Expect(place(b.LivenessProbe)).NotTo(Equal(place(a.LivenessProbe)))
	g.Expect(place(b.LivenessProbe.HTTPGet)).To(Equal(place(a.LivenessProbe.HTTPGet)))
}

// Names, UIDs and times would fill the table.
func TestALongTextBecomesKnownWhenASecondObjectHasIt(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	text := func() string { return strings.Repeat("a long name ", 10) }
	for n, object := range []metav1.ObjectMeta{{Name: text()}, {Namespace: text()}, {GenerateName: text()}} {
		s.Object(&corev1.ConfigMap{ObjectMeta: object})
		g.Expect(s.Len()).To(Equal([]int{1, 2, 2}[n]), "with the one that represents its type")
	}
}

func TestAnUpdateTakesTheEntriesThatHaveStayed(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	of := func(version string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"stays": fmt.Sprint("as", 1), "version": version}},
			Data:       map[string][]byte{"stays": []byte("secret"), "empty": {}, "none": nil, "version": []byte(version)},
		}
	}
	old, next := of("1"), of("2")
	old.Data["none"], old.Data["empty"] = next.Data["empty"], next.Data["none"]
	want := next.DeepCopy()
	s.Object(old)
	s.Update(next, old)
	g.Expect(next).To(Equal(want))
	g.Expect(textPlace(next.Annotations["stays"])).To(Equal(textPlace(old.Annotations["stays"])))
	g.Expect(place(next.Data["stays"])).To(Equal(place(old.Data["stays"])))
}

func TestPartsOfDifferentContentAreShared(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	var all []*unstructured.Unstructured
	for n := range 4 {
		u := &unstructured.Unstructured{Object: map[string]any{
			"list": []any{fmt.Sprint(n), map[string]any{"weight": int64(3), "color": "red"}},
			"one":  map[string]any{"only": strings.Repeat("long ", 20)},
		}}
		s.Object(u)
		all = append(all, u)
	}
	element := func(u *unstructured.Unstructured) uintptr { return place(u.Object["list"].([]any)[1]) }
	one := func(u *unstructured.Unstructured) uintptr { return place(u.Object["one"]) }
	g.Expect(element(all[3])).To(Equal(element(all[2])))
	g.Expect(one(all[3])).To(Equal(one(all[2])))
	g.Expect(place(all[3].Object["list"])).NotTo(Equal(place(all[2].Object["list"])))
}

// Values that a decoder never makes are equal to no value.
func TestContentOfOtherTypesStaysAsItIs(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	old := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"n": 1, "list": []any{int32(1)}}}}
	next := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"n": 2, "list": []any{int32(2)}}}}
	s.Object(old)
	s.Update(next, old)
	g.Expect(next.Object).To(Equal(map[string]any{"spec": map[string]any{"n": 2, "list": []any{int32(2)}}}))
	g.Expect(intern.Alike(old, next)).To(BeFalse())
}

// A field of an interface type may hold unstructured content, too.
func TestInterfacesInStructsAreShared(t *testing.T) {
	type holder struct {
		Name  string
		Value any
		Other chan int
	}
	g, s := NewWithT(t), intern.New()
	var all []*holder
	for n := range 3 {
		h := &holder{Name: fmt.Sprint(n), Value: map[string]any{"a": strings.Repeat("b", 100)}}
		s.Object(h)
		all = append(all, h)
	}
	g.Expect(place(all[2].Value)).To(Equal(place(all[1].Value)))
	g.Expect(all[2]).To(Equal(&holder{Name: "2", Value: map[string]any{"a": strings.Repeat("b", 100)}}))
}

// An empty value whose counterpart in another object is not empty causes no
// fault.
func TestStructsWithEmptyOpaqueFieldsAreShared(t *testing.T) {
	type inner struct {
		Words [10]int64
		Other map[int]int
		Next  *int64
	}
	type outer struct {
		Name  string
		Inner *inner
	}
	g, s := NewWithT(t), intern.New()
	var all []*outer
	for n := range 6 {
		o := &outer{fmt.Sprint(n), &inner{Words: [10]int64{int64(n % 2), 2}}}
		s.Object(o)
		all = append(all, o)
	}
	g.Expect(place(all[5].Inner)).To(Equal(place(all[3].Inner)), "by the table: the one before is different")
	g.Expect(place(all[5].Inner)).NotTo(Equal(place(all[4].Inner)))
}

// A list of numbers that the known relative does not have is found in the
// table.
func TestListsOfNumbersAreShared(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	var groups [6][]int64
	for n := range groups {
		p := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{
			FSGroup: new(int64(n)), SupplementalGroups: slices.Repeat([]int64{int64(n % 2)}, 20),
		}}}
		s.Object(p)
		groups[n] = p.Spec.SecurityContext.SupplementalGroups
	}
	g.Expect(place(groups[5])).To(Equal(place(groups[3])))
	g.Expect(place(groups[5])).NotTo(Equal(place(groups[4])))
}

// The parts inside a part that enters the table have no entries of their own.
func TestAPartThatBecomesKnownCostsOneEntry(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	long := strings.Repeat("long ", 20)
	for n, at := range []string{"x", "y"} {
		known := s.Len()
		s.Object(&unstructured.Unstructured{Object: map[string]any{at: map[string]any{
			"list": []any{strings.Clone(long), map[string]any{"one": strings.Clone(long), "two": int64(2)}},
		}}})
		g.Expect(s.Len()-known).To(Equal(1), "object %d", n)
	}
}

// Quantities in maps are shared, except for numbers so big that their copies
// share the digits.
func TestMapsOfQuantitiesAreShared(t *testing.T) {
	for text, shared := range map[string]bool{"100m": true, "123456789012345678901234567890": false} {
		g, s := NewWithT(t), intern.New()
		var limits [6]corev1.ResourceList
		for n := range limits {
			p := &corev1.Pod{Spec: corev1.PodSpec{Overhead: corev1.ResourceList{
				"cpu": resource.MustParse(text), "memory": *resource.NewQuantity(int64(n%2), resource.BinarySI),
			}}}
			s.Object(p)
			limits[n] = p.Spec.Overhead
		}
		same := place(limits[5]) == place(limits[3])
		g.Expect(same).To(Equal(shared), text)
		g.Expect(place(limits[5])).NotTo(Equal(place(limits[4])), text)
	}
}

// Parts nested deeper than ten levels stay unchanged.
func TestDeepContentStaysAsItIs(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	for n := range 3 {
		nested := func() map[string]any {
			content := map[string]any{"number": int64(n), "text": "deep"}
			for range 10 {
				content = map[string]any{"list": []any{"text", content, int64(1)}}
			}
			return content
		}
		u := &unstructured.Unstructured{Object: nested()}
		s.Object(u)
		g.Expect(u.Object).To(Equal(nested()))
	}
}

// The first element of a list has no predecessor: it shares with the first
// element of the same list one element earlier in the outer list.
func TestAFirstElementTakesSmallPartsFromTheFirstElementOfThePreviousList(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	p := &corev1.Pod{}
	for n := range 2 {
		mount := corev1.VolumeMount{Name: fmt.Sprint(n), MountPropagation: new(corev1.MountPropagationMode)}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{VolumeMounts: []corev1.VolumeMount{mount}})
	}
	s.Object(p)
	propagation := func(n int) *corev1.MountPropagationMode { return p.Spec.Containers[n].VolumeMounts[0].MountPropagation }
	g.Expect(propagation(1)).To(BeIdenticalTo(propagation(0)))

	part := func(n int) map[string]any {
		return map[string]any{"list": []any{map[string]any{"n": int64(n), "small": strings.Clone("small")}}}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"all": []any{part(0), part(1)}}}
	s.Object(u)
	small := func(n int) any {
		return u.Object["all"].([]any)[n].(map[string]any)["list"].([]any)[0].(map[string]any)["small"]
	}
	g.Expect(textPlace(small(1).(string))).To(Equal(textPlace(small(0).(string))))
}

// Parts that cannot be shared would only fill the table.
func TestPartsThatHoldWhatIsNotSharedAreNotKnown(t *testing.T) {
	type (
		part struct {
			Words [10]int64
			Lazy  *resource.Quantity
			Other map[int]int
			Most  corev1.ResourceList
			Any   any
		}
		object struct {
			Name    string
			Pointer *part
			List    []part
			Deep    []struct{ Pointer **part }
			Map     any
		}
	)
	for name, fill := range map[string]func(p *part){
		"nothing":               func(*part) {},
		"a lazy value":          func(p *part) { p.Lazy = new(resource.MustParse("1")) },
		"a lazy value of zero":  func(p *part) { p.Lazy = &resource.Quantity{} },
		"a map with other keys": func(p *part) { p.Other = map[int]int{1: 1} },
		"a number too big for a word": func(p *part) {
			p.Most = corev1.ResourceList{"cpu": resource.MustParse("123456789012345678901234567890")}
		},
		"a value of Go":         func(p *part) { p.Any = int32(1) },
		"a list of such values": func(p *part) { p.Any = []any{int32(1)} },
		"a map of such values":  func(p *part) { p.Any = map[string]any{"a": int32(1)} },
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), intern.New()
			of := func(n int) *part {
				p := &part{Words: [10]int64{int64(n)}}
				fill(p)
				return p
			}
			for n := range 6 {
				m := n % 2 // so that the one before is different
				deep := of(m)
				s.Object(&object{
					Name: fmt.Sprint(n), Pointer: of(m), List: []part{*of(m)}, Deep: []struct{ Pointer **part }{{&deep}},
					Map: []any{of(m).Any, fmt.Sprint(n)},
				})
			}
			shared := s.Len() > 1
			g.Expect(shared).To(Equal(name == "nothing"), "%d parts beside the one that represents its type", s.Len()-1)
		})
	}
}

func TestLongTextsOfContentAreShared(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	var texts [6]string
	for n := range texts {
		u := &unstructured.Unstructured{Object: map[string]any{
			"n": fmt.Sprint(n), "text": strings.Repeat("long ", 20+n%2), // a different one than before
		}}
		s.Object(u)
		texts[n] = u.Object["text"].(string)
	}
	g.Expect(textPlace(texts[5])).To(Equal(textPlace(texts[3])))
	g.Expect(texts[5]).NotTo(Equal(texts[4]))
}

// Secrets that differ otherwise hold the certificates of one authority.
func TestValuesOfMapsOfBytesAreShared(t *testing.T) {
	g, s := NewWithT(t), intern.New()
	var all []*corev1.Secret
	for n := range 6 {
		c := &corev1.Secret{Data: map[string][]byte{
			"ca.crt":  []byte(strings.Repeat("authority ", 10+n%2)), // a different one than before
			"tls.crt": fmt.Appendf(nil, "certificate %d %s", n, strings.Repeat("x", 64)),
		}}
		want := c.DeepCopy()
		s.Object(c)
		g.Expect(c).To(Equal(want))
		all = append(all, c)
	}
	g.Expect(place(all[5].Data["ca.crt"])).To(Equal(place(all[3].Data["ca.crt"])))
	g.Expect(place(all[5].Data["ca.crt"])).NotTo(Equal(place(all[4].Data["ca.crt"])))
}

// A string enters the table from 48 bytes on, and the target of a pointer from
// 64 bytes on, once two objects have it.
func TestPartsThatAreWorthAnEntry(t *testing.T) {
	type large struct{ Words [8]int64 }
	type small struct{ Words [7]int64 }
	for name, c := range map[string]struct {
		object func(n int) any
		known  int
	}{
		"text of 48":  {func(n int) any { return twoTexts(n, 48) }, 1},
		"text of 47":  {func(n int) any { return twoTexts(n, 47) }, 0},
		"pointer, 64": {func(n int) any { return &struct{ Large [2]*large }{twoPlaces[large](n)} }, 1},
		"pointer, 56": {func(n int) any { return &struct{ Small [2]*small }{twoPlaces[small](n)} }, 0},
		"other types": {func(n int) any {
			return &unstructured.Unstructured{Object: map[string]any{fmt.Sprint(n): []any{int32(7)}}}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), intern.New()
			s.Object(c.object(0))
			g.Expect(s.Len()).To(Equal(1), "the representative of its type")
			s.Object(c.object(1))
			g.Expect(s.Len()).To(Equal(1 + c.known))
		})
	}
}

// twoTexts returns an object that has a text of a length in its n-th place.
func twoTexts(n, length int) any {
	var texts [2]string
	texts[n] = strings.Repeat("t", length)
	return &struct{ Texts [2]string }{texts}
}

// twoPlaces returns two pointers. Only the n-th of them is not nil.
func twoPlaces[T any](n int) (places [2]*T) {
	places[n] = new(T)
	return places
}

// Each value adds its own size.
func TestSizeCountsEveryPart(t *testing.T) {
	g := NewWithT(t)
	sizeOf := func(v any) int64 {
		return intern.Size(slices.Values([]any{&unstructured.Unstructured{Object: map[string]any{"k": v}}}))
	}
	none := sizeOf(nil)
	long := strings.Repeat("t", 1000)
	for want, v := range map[int64]any{
		1016: long, 8: int64(1 << 40), 40: []any{nil}, 0: true,
		48 + 8*33: map[string]any{"": nil},
	} {
		g.Expect(sizeOf(v)-none).To(Equal(want), "%T", v)
	}
	g.Expect(sizeOf(0.5) - none).To(Equal(int64(8)))
	g.Expect(sizeOf([]any{long, long})-none).To(Equal(int64(24+2*16+2*16+1000)), "a text that is there twice counts once")

	mapOf := func(n int) int64 {
		m := map[string]any{}
		for i := range n {
			m[fmt.Sprint(i)] = nil
		}
		return sizeOf(m)
	}
	g.Expect(mapOf(8)-mapOf(7)).To(Equal(int64(1)), "the key: one group has eight")
	g.Expect(mapOf(9) - mapOf(8)).To(Equal(int64(1 + 8*33)))
	inField := func(v any) int64 { return intern.Size(slices.Values([]any{&struct{ Value any }{v}})) }
	g.Expect(inField(long) - inField(nil)).To(Equal(int64(1016)))

	probe := func(path string) int64 {
		handler := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path}}
		return intern.Size(slices.Values([]any{&corev1.Container{LivenessProbe: &corev1.Probe{ProbeHandler: handler}}}))
	}
	g.Expect(probe(long)-probe("")).To(Equal(int64(1000)), "behind two pointers")

	limits := func(names ...string) int64 {
		c := &corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}
		for _, name := range names {
			c.Resources.Limits[corev1.ResourceName(name)] = resource.MustParse("1")
		}
		return intern.Size(slices.Values([]any{c}))
	}
	g.Expect(limits("") - limits()).To(BeNumerically(">", 8*int64(unsafe.Sizeof(resource.Quantity{}))))
	g.Expect(limits(long) - limits("")).To(Equal(int64(1000)))
	data := func(value []byte) int64 {
		return intern.Size(slices.Values([]any{&corev1.Secret{Data: map[string][]byte{"k": value}}}))
	}
	g.Expect(data(make([]byte, 10, 70)) - data(nil)).To(Equal(int64(70)))
}
