package patch_test

import (
	"context"
	"encoding/json"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/diff"
	"github.com/homeostat/homeostat/patch"
)

// sink takes a patch and sends nothing, as the rivals' Data does.
type sink[T informer.Object] struct {
	answer T
	bytes  int
}

func (s *sink[T]) Patch(
	_ context.Context, _ string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (T, error) {
	s.bytes = len(data)
	return s.answer, nil
}

// object is the interface of both kinds in the benchmarks.
type object interface {
	informer.Object
	client.Object
}

const (
	key   = "example.com/note-3"
	value = "changed"
)

// rival makes one patch of an annotation of obj, or an empty one if what is "".
type rival[T object] struct {
	name string
	make func(b *testing.B, obj T, what string)
}

func set(obj metav1.Object, what string) {
	if what != "" {
		obj.GetAnnotations()[key] = what
	}
}

func check(b *testing.B, data []byte, err error) {
	if err != nil || len(data) == 0 {
		b.Fatalf("no patch: %v", err)
	}
}

func merging[T object](c *sink[T]) rival[T] {
	of := func(string) *sink[T] { return c }
	return rival[T]{"homeostat", func(b *testing.B, obj T, what string) {
		c.bytes = 0
		_, err := patch.Merge(b.Context(), of, obj, nil, func(o T) { set(o, what) })
		if err != nil || (c.bytes > 0) != (what != "") {
			b.Fatal("wrong patch", c.bytes, err)
		}
	}}
}

func mergeFrom[T object](b *testing.B, obj T, what string) {
	edited := obj.DeepCopyObject().(T)
	set(edited, what)
	data, err := client.MergeFrom(obj).Data(edited)
	check(b, data, err)
}

func strategicMergeFrom[T object](b *testing.B, obj T, what string) {
	edited := obj.DeepCopyObject().(T)
	set(edited, what)
	data, err := client.StrategicMergeFrom(obj).Data(edited)
	check(b, data, err)
}

func twoWay[T object](b *testing.B, obj T, what string) {
	edited := obj.DeepCopyObject().(T)
	set(edited, what)
	before, err := json.Marshal(obj)
	if err != nil {
		b.Fatal(err)
	}
	after, err := json.Marshal(edited)
	if err != nil {
		b.Fatal(err)
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(before, after, obj)
	check(b, data, err)
}

// deepEqual is the usual way to send nothing: copy, edit, compare, patch if it
// differs.
func deepEqual[T object](b *testing.B, obj T, what string) {
	edited := obj.DeepCopyObject().(T)
	set(edited, what)
	if !equality.Semantic.DeepEqual(obj, edited) {
		data, err := client.MergeFrom(obj).Data(edited)
		check(b, data, err)
	}
}

// processorTime returns the processor time of all threads; on a shared machine
// elapsed time means little.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func run[T object](b *testing.B, kind, row, what string, obj T, rivals ...rival[T]) {
	for _, r := range rivals {
		b.Run("kind="+kind+"/row="+row+"/impl="+r.name, func(b *testing.B) {
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				r.make(b, obj, what)
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func all[T object](b *testing.B, kind string, obj T) {
	c := &sink[T]{answer: obj}
	cr := rival[T]{"mergefrom", mergeFrom[T]}
	crs := rival[T]{"strategicmergefrom", strategicMergeFrom[T]}
	k8s := rival[T]{"apimachinery", twoWay[T]}
	eq := rival[T]{"deepequal", deepEqual[T]}
	run(b, kind, "merge", value, obj, merging(c), cr, crs, k8s)
	run(b, kind, "unchanged", "", obj, merging(c), eq)
	edited := obj.DeepCopyObject()
	run(b, kind, "comparedequal", "", obj, rival[T]{"homeostat", func(b *testing.B, obj T, _ string) {
		if p, err := diff.Make(obj, edited, diff.Strategic); err != nil || p.Data != nil {
			b.Fatal("wrong patch", p, err)
		}
	}}, rival[T]{"deepequal", func(b *testing.B, obj T, _ string) {
		if !equality.Semantic.DeepEqual(obj, edited) {
			b.Fatal("not equal")
		}
	}})
	run(b, kind, "deepcopy", "", obj, rival[T]{"homeostat", func(b *testing.B, obj T, _ string) {
		if obj.DeepCopyObject() == nil {
			b.Fatal("no copy")
		}
	}})
}

// cache is memory that is in use, as a controller's cache is. Without it the
// collector runs after every few hundred edits of a benchmark, which costs
// those most that copy least.
func cache() []byte { return make([]byte, 64<<20) }

// BenchmarkPatch makes patches of one annotation of a Pod and of a Node, with
// the copy that each way needs.
func BenchmarkPatch(b *testing.B) {
	defer runtime.KeepAlive(cache())
	all[*corev1.Pod](b, "Pod", pod())
	all[*corev1.Node](b, "Node", node())
}
