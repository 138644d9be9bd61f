package intern_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apitesting "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/intern"
)

// An object of any kind whose random parts are updated repeatedly is the same
// after sharing, and its earlier states do not change.
func TestUpdatesStayDeeplyEqual(t *testing.T) {
	source := rand.NewSource(5)
	random := rand.New(source)
	fill := apitesting.FuzzerFor(metafuzzer.Funcs, source, serializer.NewCodecFactory(scheme.Scheme))
	s := intern.New()
	for gvk := range scheme.Scheme.AllKnownTypes() {
		base, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		other := base.DeepCopyObject()
		fill.Fill(base)
		shared, pristine := []any{base.DeepCopyObject()}, []any{base}
		s.Object(shared[0])
		for n := range 6 {
			fill.Fill(other)
			next := pristine[n].(runtime.Object).DeepCopyObject()
			mix(random, reflect.ValueOf(next).Elem(), reflect.ValueOf(other.DeepCopyObject()).Elem())
			pristine = append(pristine, next.DeepCopyObject())
			s.Update(next, shared[n])
			shared = append(shared, next)
			if !reflect.DeepEqual(shared, pristine) {
				t.Fatalf("%s has changed", gvk)
			}
		}
	}
}

func TestUpdatesOfUnstructuredStayDeeplyEqual(t *testing.T) {
	s := intern.New()
	variants := []func(u map[string]any){
		func(map[string]any) {},
		func(u map[string]any) { u["more"] = []any{"x"} },
		func(u map[string]any) { delete(u, "kind") },
		func(u map[string]any) { u["spec"].(map[string]any)["size"] = float64(1 << 40) },
		func(u map[string]any) { u["spec"].(map[string]any)["nothing"] = []any(nil) },
		func(u map[string]any) { u["spec"].(map[string]any)["none"] = map[string]any(nil) },
		func(u map[string]any) {
			spec := u["spec"].(map[string]any)
			spec["parts"] = append(spec["parts"].([]any), int64(7))
		},
		func(u map[string]any) { u["spec"].(map[string]any)["parts"] = []any{"a"} },
	}
	for _, from := range variants {
		for _, to := range variants {
			old, next, want := content(1), content(1), content(1)
			from(old.Object)
			s.Object(old)
			before := old.DeepCopy()
			to(next.Object)
			to(want.Object)
			s.Update(next, old)
			if !reflect.DeepEqual(next, want) || !reflect.DeepEqual(old, before) {
				t.Fatalf("got %v, want %v", next, want)
			}
		}
	}
}

func TestUpdatesKeepWhatHasStayed(t *testing.T) {
	s := intern.New()
	var third [3]*corev1.Pod
	for n := range third {
		old, next := replica(n), replica(n)
		s.Object(old)
		next.ResourceVersion = "2"
		next.Labels["version"] = "2"
		next.Spec.Containers[0].Image = "registry/web:2"
		want := next.DeepCopy()
		known, unchanged := s.Len(), replica(n)
		unchanged.ResourceVersion = "1"
		s.Update(unchanged, old)
		if s.Len() != known {
			t.Error("the table has learned what has stayed")
		}
		s.Update(next, old)
		if !reflect.DeepEqual(next, want) {
			t.Fatal("the Pod has changed")
		}
		for name, of := range map[string]func(*corev1.Pod) uintptr{
			"own map":                func(p *corev1.Pod) uintptr { return place(p.Annotations) },
			"owner references":       func(p *corev1.Pod) uintptr { return place(p.OwnerReferences) },
			"own list in an element": func(p *corev1.Pod) uintptr { return place(p.Spec.Containers[0].VolumeMounts) },
			"map in an element":      func(p *corev1.Pod) uintptr { return place(p.Spec.Containers[0].Resources.Requests) },
			"tolerations":            func(p *corev1.Pod) uintptr { return place(p.Spec.Tolerations) },
		} {
			if of(old) != of(next) {
				t.Errorf("%s: is not shared with the Pod before", name)
			}
		}
		third[n] = next
	}
	if place(third[1].Labels) != place(third[2].Labels) {
		t.Error("what has changed is not shared with others")
	}
}

func TestUpdatesOfUnstructuredKeepWhatHasStayed(t *testing.T) {
	s := intern.New()
	old, next := content(1), content(1)
	s.Object(old)
	next.SetResourceVersion("2")
	s.Update(next, old)
	spec := func(u *unstructured.Unstructured) uintptr { return reflect.ValueOf(u.Object["spec"]).Pointer() }
	if spec(old) != spec(next) {
		t.Error("the spec is not the same one")
	}
}

func TestOddUpdates(t *testing.T) {
	s := intern.New()
	for _, old := range []any{nil, (*corev1.Pod)(nil), &corev1.Node{}, 7} {
		p := replica(1)
		s.Update(p, old)
		if !reflect.DeepEqual(p, replica(1)) {
			t.Errorf("the Pod has changed, with %T before", old)
		}
	}
	p := replica(1)
	s.Update(p, p)
	s.Update(nil, p)
	if !reflect.DeepEqual(p, replica(1)) {
		t.Error("the Pod has changed")
	}
}

// Unchanged parts are found without the table, in any order of the updates.
func BenchmarkUpdate(b *testing.B) {
	b.ReportAllocs()
	s := intern.New()
	pods, next := make([]*corev1.Pod, 1000), make([]*corev1.Pod, 1000)
	for n := range pods {
		pods[n] = replica(n)
		s.Object(pods[n])
	}
	rounds := 0
	for b.Loop() {
		b.StopTimer()
		rounds++
		for n := range next {
			next[n] = replica(n)
			next[n].ResourceVersion = fmt.Sprint(rounds)
		}
		b.StartTimer()
		for n := range next {
			s.Update(next[n*7919%1000], pods[n*7919%1000])
		}
		copy(pods, next)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(pods)), "ns/object")
}
