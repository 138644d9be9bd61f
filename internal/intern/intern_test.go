package intern_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	apitesting "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/intern"
)

// An object of any built-in kind with random content is the same after sharing
// with copies of itself and with objects of all other kinds.
func TestAllKindsStayDeeplyEqual(t *testing.T) {
	fill := apitesting.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme.Scheme))
	s := intern.New()
	kinds := 0
	var kept []any // the table holds its parts weakly
	for gvk := range scheme.Scheme.AllKnownTypes() {
		pristine, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		kinds++
		for range 3 {
			fill.Fill(pristine)
			for range 4 {
				object := pristine.DeepCopyObject()
				s.Object(object)
				kept = append(kept, object)
				if !reflect.DeepEqual(object, pristine) {
					t.Fatalf("%s has changed", gvk)
				}
			}
		}
	}
	if kinds < 500 || s.Len() < 1000 {
		t.Errorf("%d kinds, %d parts: that is too few", kinds, s.Len())
	}
	runtime.KeepAlive(kept)
}

// Each object has much in common with the one before, in different places each
// time. It is the same after sharing, and the earlier objects do not change.
func TestMixturesStayDeeplyEqual(t *testing.T) {
	source := rand.NewSource(3)
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
		var shared, pristine []any
		for range 6 {
			fill.Fill(other)
			mixture := base.DeepCopyObject()
			mix(random, reflect.ValueOf(mixture).Elem(), reflect.ValueOf(other.DeepCopyObject()).Elem())
			pristine = append(pristine, mixture.DeepCopyObject())
			s.Object(mixture)
			shared = append(shared, mixture)
			if !reflect.DeepEqual(shared, pristine) {
				t.Fatalf("%s has changed", gvk)
			}
		}
	}
}

// Writing to a shared object is a bug, but it must not damage the next object
// or crash the program.
func TestSharedObjectsThatAreWrittenTo(t *testing.T) {
	source := rand.NewSource(4)
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
		for range 6 {
			object := base.DeepCopyObject()
			s.Object(object)
			if !reflect.DeepEqual(object, base) {
				t.Fatalf("%s has changed", gvk)
			}
			fill.Fill(other)
			mix(random, reflect.ValueOf(object).Elem(), reflect.ValueOf(other.DeepCopyObject()).Elem())
		}
	}
}

// mix replaces some parts of to with parts of from.
func mix(random *rand.Rand, to, from reflect.Value) {
	switch {
	case !to.CanSet():
	case random.Intn(6) == 0:
		to.Set(from)
	case to.Kind() == reflect.Struct:
		for n := range to.NumField() {
			mix(random, to.Field(n), from.Field(n))
		}
	case to.Kind() == reflect.Pointer && !to.IsNil() && !from.IsNil():
		mix(random, to.Elem(), from.Elem())
	case to.Kind() == reflect.Slice:
		for n := range min(to.Len(), from.Len()) {
			mix(random, to.Index(n), from.Index(n))
		}
		if to.Len() > 0 && random.Intn(4) == 0 {
			to.Set(to.Slice(random.Intn(to.Len()), to.Len()))
		}
	}
}

// replica returns a Pod that shares nothing with others: each of its texts has
// been decoded.
func replica(n int) *corev1.Pod {
	data, err := template(n).Marshal()
	p := &corev1.Pod{}
	if err == nil {
		err = p.Unmarshal(data)
	}
	if err != nil {
		panic(err)
	}
	return p
}

func template(n int) *corev1.Pod {
	always := corev1.MountPropagationNone
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("web-", n), Namespace: "shop", UID: types.UID(fmt.Sprint("uid-", n)),
			Labels:          map[string]string{"app": "web", "version": "1"},
			Annotations:     map[string]string{"number": fmt.Sprint(n), "checksum": "c0ffee"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1",
			Containers: []corev1.Container{{
				Name: "main", Image: "registry/web:1",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "config", MountPath: "/etc/web", MountPropagation: &always},
					{Name: fmt.Sprint("token-", n), MountPath: "/var/run"},
				},
			}},
			Tolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}},
		},
	}
}

// place returns the address that a pointer, a list or a map points to.
func place(v any) uintptr { return reflect.ValueOf(v).Pointer() }

func TestEqualPartsAreOne(t *testing.T) {
	s := intern.New()
	var pods []*corev1.Pod
	for n := range 4 {
		p := replica(n)
		s.Object(p)
		if !reflect.DeepEqual(p, replica(n)) {
			t.Fatal("the Pod has changed")
		}
		pods = append(pods, p)
	}
	text := func(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s))) }
	for name, of := range map[string]func(*corev1.Pod) uintptr{
		"namespace":             func(p *corev1.Pod) uintptr { return text(p.Namespace) },
		"labels":                func(p *corev1.Pod) uintptr { return place(p.Labels) },
		"value of an own map":   func(p *corev1.Pod) uintptr { return text(p.Annotations["checksum"]) },
		"owner references":      func(p *corev1.Pod) uintptr { return place(p.OwnerReferences) },
		"managed fields":        func(p *corev1.Pod) uintptr { return place(p.ManagedFields) },
		"tolerations":           func(p *corev1.Pod) uintptr { return place(p.Spec.Tolerations) },
		"image":                 func(p *corev1.Pod) uintptr { return text(p.Spec.Containers[0].Image) },
		"requests":              func(p *corev1.Pod) uintptr { return place(p.Spec.Containers[0].Resources.Requests) },
		"pointer in an element": func(p *corev1.Pod) uintptr { return place(p.Spec.Containers[0].VolumeMounts[0].MountPropagation) },
	} {
		if of(pods[1]) != of(pods[2]) || of(pods[2]) != of(pods[3]) {
			t.Errorf("%s: not shared", name)
		}
	}
	for name, of := range map[string]func(*corev1.Pod) uintptr{
		"name":       func(p *corev1.Pod) uintptr { return text(p.Name) },
		"own map":    func(p *corev1.Pod) uintptr { return place(p.Annotations) },
		"containers": func(p *corev1.Pod) uintptr { return place(p.Spec.Containers) },
	} {
		if of(pods[2]) == of(pods[3]) {
			t.Errorf("%s: shared, but different", name)
		}
	}
	key := ""
	for k := range pods[2].Annotations {
		if k == "checksum" {
			key = k
		}
	}
	for k := range pods[3].Annotations {
		if k == "checksum" && text(k) != text(key) {
			t.Error("key of an own map: not shared")
		}
	}
}

func content(n int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "Widget", "metadata": map[string]any{"name": fmt.Sprint(n), "labels": map[string]any{"color": "red"}},
		"spec": map[string]any{
			"size": int64(1 << 40), "ratio": 0.5, "on": true, "none": nil, "empty": "", "nothing": []any{},
			"parts": []any{"a", map[string]any{"weight": int64(3)}, fmt.Sprint(n % 2)},
		},
	}}
}

func TestUnstructuredIsShared(t *testing.T) {
	var missed []string
	for range 5 { // by chance, two sightings of a pool may keep overwriting each other
		if missed = unshared(t, intern.New()); missed == nil {
			return
		}
	}
	t.Error(missed)
}

// unshared returns the parts with equal contents that s does not share, or
// shares wrongly.
func unshared(t *testing.T, s *intern.Pool) (missed []string) {
	var all []map[string]any
	for n := range 6 {
		u := content(n)
		s.Object(u)
		if !reflect.DeepEqual(u, content(n)) {
			t.Fatalf("the content has changed: %v", u)
		}
		all = append(all, u.Object)
	}
	if place(all[3]["spec"]) != place(all[5]["spec"]) {
		missed = append(missed, "equal specs are not shared")
	}
	if place(all[4]["spec"]) == place(all[5]["spec"]) {
		t.Error("different specs are shared")
	}
	labels := func(n int) any { return all[n]["metadata"].(map[string]any)["labels"] }
	if place(labels(2)) != place(labels(5)) {
		missed = append(missed, "equal labels are not shared")
	}
	return missed
}

func TestNilAndEmptyStayApart(t *testing.T) {
	s := intern.New()
	for n := range 10 {
		none := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}, NodeSelector: nil}
		empty := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Args: []string{}}}, NodeSelector: map[string]string{}}
		holder := []*corev1.Pod{{Spec: *none}, {Spec: *empty}}[n%2]
		want := holder.DeepCopy()
		s.Object(holder)
		if !reflect.DeepEqual(holder, want) {
			t.Fatalf("got %#v, want %#v", holder.Spec, want.Spec)
		}
	}
}

func TestOddArguments(t *testing.T) {
	s := intern.New()
	s.Object(nil)
	s.Object((*corev1.Pod)(nil))
	s.Object(corev1.Pod{})
	s.Object(&struct{}{})
	value := 7
	s.Object(&value)
	if value != 7 || s.Len() != 0 {
		t.Error("something has changed")
	}
}

// Dead parts leave the table even if there were many: a million objects are
// added, and all but a few are deleted.
func TestTableKeepsNoGarbage(t *testing.T) {
	const (
		objects = churned / 2
		alive   = 100
	)
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // how much there may be meanwhile depends on it
	s := intern.New()
	round := func(from int) (kept []*corev1.ConfigMap, largest int) {
		for n := range objects {
			team := fmt.Sprint("team-", from+n/4) // four of each
			c := &corev1.ConfigMap{Data: map[string]string{"owner": team}}
			c.Name, c.Namespace = fmt.Sprint("c-", n), team
			s.Object(c)
			if n < alive {
				kept = append(kept, c)
			}
			largest = max(largest, s.Len())
		}
		return kept, largest
	}
	kept, _ := round(0)
	before := settledLen(s)
	_, largest := round(objects)
	if after := settledLen(s); after > 2*before { // a part of the table stays until a quarter of it is dead
		t.Errorf("%d parts are known, %d before", after, before)
	}
	if largest > 20*before+20_000 {
		t.Errorf("the table grew to %d parts, with %d alive", largest, before)
	}
	runtime.KeepAlive(kept)
}

// settledLen is the number of known parts when the tables no longer shrink.
func settledLen(s *intern.Pool) int {
	least := s.Len()
	for range 20 {
		runtime.GC() // the tables are swept behind it, by another goroutine
		for range 100 {
			runtime.Gosched()
			least = min(least, s.Len())
		}
	}
	return least
}

func TestConcurrentUse(t *testing.T) {
	s := intern.New()
	var workers sync.WaitGroup
	var mu sync.Mutex // guards shared
	var shared []*corev1.Pod
	for range 4 {
		workers.Go(func() {
			for n := range 300 {
				p := replica(n % 5)
				s.Object(p)
				mu.Lock()
				shared = append(shared, p)
				mu.Unlock()
				if !reflect.DeepEqual(p, replica(n%5)) { // reads what others share meanwhile
					t.Error("the Pod has changed")
					return
				}
			}
		})
	}
	workers.Wait()
	for _, p := range shared {
		if p.Labels["app"] != "web" {
			t.Error("a shared Pod has changed")
		}
	}
}

func BenchmarkObject(b *testing.B) {
	b.ReportAllocs()
	s := intern.New()
	pods := make([]*corev1.Pod, 1000)
	for b.Loop() {
		b.StopTimer()
		for n := range pods {
			pods[n] = replica(n)
		}
		b.StartTimer()
		for _, p := range pods {
			s.Object(p)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(pods)), "ns/object")
}

// The caller need not call any method for this.
func TestATableOfDeadPartsShrinksByItself(t *testing.T) {
	s := intern.New()
	var kept []*corev1.ConfigMap
	for n := range 40_000 {
		c := &corev1.ConfigMap{Data: map[string]string{"owner": fmt.Sprint("team-", n/2)}}
		s.Object(c)
		kept = append(kept, c)
	}
	if s.Len() < 10_000 {
		t.Errorf("%d parts are known: that is too few", s.Len())
	}
	runtime.KeepAlive(kept)
	if left := settledLen(s); left > 0 {
		t.Errorf("%d parts are known of objects that are dead", left)
	}
}

// If an object has the same address twice, the text is in memory once.
func TestTextsThatAnObjectHasTwiceAreOne(t *testing.T) {
	s := intern.New()
	p := replica(1)
	p.Status.PodIP, p.Status.PodIPs = fmt.Sprint("10.0.0.", 7), []corev1.PodIP{{IP: fmt.Sprint("10.0.0.", 7)}}
	s.Object(p)
	if a, b := p.Status.PodIP, p.Status.PodIPs[0].IP; a != b || unsafe.StringData(a) != unsafe.StringData(b) {
		t.Error("they are not one")
	}
}
