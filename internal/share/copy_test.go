package share_test

import (
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apitesting "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/share"
)

// scribble writes to all memory that v can reach, in place.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		if q, ok := reflect.TypeAssert[*resource.Quantity](v.Addr()); ok {
			q.Add(resource.MustParse("1"))
			return
		}
		for _, f := range v.Fields() {
			if f.CanSet() {
				scribble(f)
			}
		}
	case reflect.Slice:
		for n := range v.Len() {
			scribble(v.Index(n))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			scribble(value)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString("scribble")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	}
}

// Copies of every kind are equal and share nothing, also when their memory has
// been used, and when an edit has put a part of a third object into it.
func TestCopiesShareNothing(t *testing.T) {
	fill := apitesting.FuzzerFor(metafuzzer.Funcs, rand.NewSource(2), serializer.NewCodecFactory(scheme.Scheme))
	made := func(like runtime.Object) (object, pristine runtime.Object) {
		object = reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object)
		fill.Fill(object)
		if o, ok := object.(metav1.Object); ok {
			o.SetManagedFields(nil)
		}
		return object, object.DeepCopyObject()
	}
	kinds, copied := 0, 0
	inTest := share.Emptied
	defer func() { share.Emptied = inTest }()
	for gvk := range scheme.Scheme.AllKnownTypes() {
		like, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		kinds++
		for round := range 4 {
			share.Emptied = func() bool { return round%2 == 0 }
			object, pristine := made(like)
			other, untouched := made(like)
			c := share.CopyOf(object)
			if c == nil {
				continue
			}
			copied++
			if !reflect.DeepEqual(c.Object(), pristine) {
				t.Fatalf("%s: the copy is not equal", gvk)
			}
			scribble(reflect.ValueOf(c.Object()))
			if !reflect.DeepEqual(object, pristine) {
				t.Fatalf("%s: an edit of the copy has reached the object", gvk)
			}
			lend(reflect.ValueOf(c.Object()).Elem(), reflect.ValueOf(other).Elem())
			c.Release()
			again := share.CopyOf(object)
			scribble(reflect.ValueOf(again.Object()))
			again.Release()
			if !reflect.DeepEqual(object, pristine) || !reflect.DeepEqual(other, untouched) {
				t.Fatalf("%s: a later copy has reached an object", gvk)
			}
		}
	}
	if kinds < 500 || copied < 3*kinds {
		t.Errorf("%d copies of %d kinds: that is too few", copied, kinds)
	}
}

// lend makes fields of an edited copy those of another object, and of structs
// and elements within.
func lend(to, from reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		for n := range to.NumField() {
			switch f := to.Field(n); {
			case !f.CanSet():
			case f.Kind() == reflect.Struct:
				lend(f, from.Field(n))
			default:
				f.Set(from.Field(n))
			}
		}
	case reflect.Slice:
		for n := range min(to.Len(), from.Len()) {
			lend(to.Index(n), from.Index(n))
		}
	}
}

// A quantity of many digits points to them.
func TestLargeQuantitiesAreCopied(t *testing.T) {
	large := resource.MustParse("123456789012345678901234567890")
	pod := replica(1)
	pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: large.DeepCopy()}
	for range 3 {
		c := share.CopyOf(pod)
		scribble(reflect.ValueOf(c.Object()))
		c.Release()
		if got := pod.Spec.Overhead[corev1.ResourceMemory]; got.Cmp(large) != 0 {
			t.Fatalf("got %s, want %s", got.String(), large.String())
		}
	}
}

// What an edit has taken over from the object is not left in the memory of the
// next copy.
func TestLargeQuantitiesThatAnEditTookAreCopied(t *testing.T) {
	inTest := share.Emptied
	defer func() { share.Emptied = inTest }()
	share.Emptied = func() bool { return false }
	large := func() *corev1.Node {
		amount := resource.MustParse("123456789012345678901234567890")
		return &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"x": amount}}}
	}
	node := large()
	for range 100 { // the pool may have none, and drops some under the race detector
		c := share.CopyOf(node)
		capacity := c.Object().(*corev1.Node).Status.Capacity
		if x := capacity["x"]; !x.Equal(node.Status.Capacity["x"]) {
			t.Fatalf("the copy has %s", x.String())
		}
		x := capacity["x"]
		x.Add(resource.MustParse("1"))
		capacity["x"] = node.Status.Capacity["x"]
		c.Release()
		if !reflect.DeepEqual(node, large()) {
			t.Fatal("an edit of a copy has changed the object")
		}
	}
}

// A map that is as it was copied may have gone to another place, and what was
// copied may have been replaced.
func TestMapsOfCopiesThatWereMoved(t *testing.T) {
	inTest := share.Emptied
	defer func() { share.Emptied = inTest }()
	share.Emptied = func() bool { return false }
	node := &corev1.Node{}
	node.Labels, node.Annotations = map[string]string{"a": "1", "b": "2"}, map[string]string{"a": "1", "b": "3"}
	two := resource.MustParse("2")
	node.Status.Allocatable = corev1.ResourceList{"cpu": two}
	edits := map[string]func(*corev1.Node){
		"swapped labels": func(n *corev1.Node) { n.Labels, n.Annotations = n.Annotations, n.Labels },
		"swapped quantities": func(n *corev1.Node) {
			n.Status.Capacity, n.Status.Allocatable = n.Status.Allocatable, n.Status.Capacity
		},
		"the same twice": func(n *corev1.Node) { n.Labels = n.Annotations },
		"none":           func(n *corev1.Node) { n.Labels = nil },
		"a new map":      func(n *corev1.Node) { n.Labels = map[string]string{"a": "1"} },
		"a value":        func(n *corev1.Node) { n.Annotations["b"] = "2" },
		"a key":          func(n *corev1.Node) { delete(n.Annotations, "b"); n.Annotations["c"] = "3" },
		"one more":       func(n *corev1.Node) { n.Annotations["c"] = "3" },
		"a quantity":     func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("3") },
		"moved, and made anew": func(n *corev1.Node) {
			n.Status.Capacity, n.Status.Allocatable = n.Status.Allocatable, corev1.ResourceList{"cpu": two}
		},
	}
	for what, edit := range edits {
		for range 3 { // what an edit leaves is not in the next copy
			c := share.CopyOf(node)
			if !c.Equal(node) || !reflect.DeepEqual(c.Object(), node) {
				t.Fatalf("before %s: the copy is not equal: %v", what, c.Object())
			}
			edited := c.Object().(*corev1.Node)
			if edit(edited); c.Equal(node) {
				t.Errorf("%s: not seen", what)
			}
			edited.Labels = map[string]string{"a": "1", "b": "2"}
			edited.Annotations = map[string]string{"a": "1", "b": "3"}
			edited.Status.Capacity, edited.Status.Allocatable = node.Status.Capacity, node.Status.Allocatable
			if !c.Equal(node) {
				t.Errorf("%s: undone, and not equal", what)
			}
			c.Release()
		}
	}
}

func TestCopiesHaveNoManagedFields(t *testing.T) {
	pod := replica(1)
	if c := share.CopyOf(pod); c.Object().(*corev1.Pod).ManagedFields != nil || pod.ManagedFields == nil {
		t.Error("the copy has managed fields")
	}
}

func TestCopyTellsNilFromEmpty(t *testing.T) {
	for range 3 {
		pod := replica(1)
		pod.ManagedFields = nil
		pod.Labels, pod.Annotations = nil, map[string]string{}
		pod.Finalizers, pod.OwnerReferences = []string{}, nil
		pod.Spec.Overhead, pod.Spec.NodeSelector = corev1.ResourceList{}, nil
		c := share.CopyOf(pod)
		edited := c.Object().(*corev1.Pod)
		if !reflect.DeepEqual(edited, pod) {
			t.Fatalf("got %#v, want %#v", edited.ObjectMeta, pod.ObjectMeta)
		}
		edited.Finalizers = append(edited.Finalizers, "f")
		edited.Annotations["a"] = "b"
		edited.Spec.Overhead[corev1.ResourceCPU] = resource.MustParse("1")
		c.Release()
	}
}

func TestReleasedCopiesAreEmpty(t *testing.T) {
	c := share.CopyOf(replica(1))
	kept := c.Object().(*corev1.Pod)
	labels, containers := kept.Labels, kept.Spec.Containers
	requests := containers[0].Resources.Requests
	c.Release()
	if kept.Name != "" || len(labels) != 0 || containers[0].Image != "" || len(requests) != 0 {
		t.Errorf("left over: %q %v %v %v", kept.Name, labels, containers, requests)
	}
}

func TestWhatIsNotCopied(t *testing.T) {
	for _, obj := range []any{
		nil, (*corev1.Pod)(nil),
		corev1.Pod{},
		content(1), &runtime.RawExtension{Object: replica(1)},
		&struct{ F func() }{func() {}},
	} {
		if c := share.CopyOf(obj); c != nil {
			t.Errorf("%T: got a copy", obj)
		}
	}
	if c := share.CopyOf(&runtime.RawExtension{Raw: []byte("a")}); c == nil {
		t.Error("no copy of raw content")
	}
}

// What an unexported pointer leads to is its package's own business: it may be
// written to while the object is read.
func TestHiddenFieldsAreLeftAlone(t *testing.T) {
	type hidden struct {
		Name  string
		cache *string
	}
	first, second := "a", "a"
	if c := share.CopyOf(&hidden{Name: "n"}); c != nil {
		t.Error("got a copy")
	}
	s := share.New()
	for range 4 {
		h := &hidden{"n", &second}
		s.Object(&hidden{"n", &first})
		s.Object(h)
		if h.cache != &second {
			t.Fatal("a hidden field is shared")
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	share.Emptied = func() bool { return false }
	pod := replica(1)
	b.Run("copy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			share.CopyOf(pod).Release()
		}
	})
	b.Run("equal", func(b *testing.B) {
		other := pod.DeepCopy()
		b.ReportAllocs()
		for b.Loop() {
			share.Equal(pod, other)
		}
	})
	b.Run("deepcopy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pod.DeepCopy()
		}
	})
}
