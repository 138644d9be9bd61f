package intern_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/intern"
)

// measured returns a replica with quantities that are not in maps.
func measured(n int) *corev1.Pod {
	p := replica(n)
	p.Spec.Volumes = []corev1.Volume{{
		Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			SizeLimit: resource.NewQuantity(1<<30, resource.BinarySI), // its text is not known yet
		}},
	}}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CPU", ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{
			ContainerName: "main", Resource: "limits.cpu", Divisor: *resource.NewMilliQuantity(1, resource.DecimalSI),
		},
	}}}
	return p
}

func limitOf(p *corev1.Pod) *resource.Quantity { return p.Spec.Volumes[0].EmptyDir.SizeLimit }

func divisorOf(p *corev1.Pod) *resource.Quantity {
	return &p.Spec.Containers[0].Env[0].ValueFrom.ResourceFieldRef.Divisor
}

// read reads a Pod in all the ways that write to a quantity.
func read(p *corev1.Pod) error {
	_ = limitOf(p).String()
	_ = divisorOf(p).String()
	for _, q := range p.Spec.Containers[0].Resources.Requests {
		_ = q.AsDec()
	}
	copied := p.DeepCopy()
	limitOf(copied).AsDec()
	if _, err := p.Marshal(); err != nil {
		return fmt.Errorf("encoding in protobuf: %w", err)
	}
	_, err := json.Marshal(p)
	limitOf(p).AsDec()
	return err
}

func TestLazyValuesAreNotShared(t *testing.T) {
	g := NewWithT(t)
	s := intern.New()
	var limits, divisors []*resource.Quantity
	var last *corev1.Pod
	for n := range 6 {
		p := measured(n)
		s.Object(p)
		g.Expect(p).To(Equal(measured(n)))
		next := measured(n)
		next.ResourceVersion = "2"
		s.Update(next, p)
		g.Expect(place(p.Spec.Tolerations)).To(Equal(place(next.Spec.Tolerations)), "the rest is shared")
		limits = append(limits, limitOf(p), limitOf(next))
		divisors = append(divisors, divisorOf(p), divisorOf(next))
		last = next
	}
	for _, all := range [][]*resource.Quantity{limits, divisors} {
		slices.SortFunc(all, func(a, b *resource.Quantity) int { return int(place(a)) - int(place(b)) })
		g.Expect(slices.Compact(all)).To(HaveLen(12))
	}
	g.Expect(intern.Lazy(last)).To(BeTrue())
	g.Expect(intern.Lazy(replica(1))).To(BeFalse(), "readers have copies of quantities in maps")
	for _, odd := range []any{nil, (*corev1.Pod)(nil), *last} {
		g.Expect(intern.Lazy(odd)).To(BeFalse())
	}
}

// Each object is read by its own goroutine, as each key has its own worker. No
// reader may touch memory that the reader of another object writes to. The race
// detector finds such memory.
func TestReadersOfDifferentObjectsDoNotMeet(t *testing.T) {
	const objects, rounds = 8, 20
	g := NewWithT(t)
	s := intern.New()
	faults := make(chan error, objects*rounds*2)
	var readers sync.WaitGroup
	cached := make([]*corev1.Pod, objects)
	for round := range rounds {
		for n := range cached {
			p := measured(n)
			p.ResourceVersion = fmt.Sprint(round)
			if cached[n] == nil {
				s.Object(p)
			} else {
				s.Update(p, cached[n])
				intern.Alike(p, cached[n])
				intern.Size(slices.Values(cached))
			}
			cached[n] = p
			readers.Go(func() { faults <- read(p) })
		}
	}
	readers.Wait()
	close(faults)
	for err := range faults {
		g.Expect(err).NotTo(HaveOccurred())
	}
}

// Copies of a big number share its digits, and methods of the copies write
// there.
func TestMapsWithBigNumbersAreNotShared(t *testing.T) {
	g := NewWithT(t)
	s := intern.New()
	var last, next *corev1.Pod
	for n := range 5 {
		last, next = next, replica(n)
		next.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100000000000000000000000")
		s.Object(next)
	}
	digits := func(p *corev1.Pod) uintptr {
		q := p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
		return place(q.AsDec())
	}
	g.Expect(digits(last)).NotTo(Equal(digits(next)))
}

// A detector of mutations compares objects that are not alike deeply. It then
// also reads lazy values, at the same time as their readers write to them.
func TestAlikeKnowsMapsWithBigNumbers(t *testing.T) {
	g := NewWithT(t)
	with := func(amount string) *corev1.Pod {
		p := measured(1)
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
		return p
	}
	const big, bigger = "100000000000000000000000", "100000000000000000000001"
	g.Expect(intern.Alike(with(big), with(big).DeepCopy())).To(BeTrue())
	g.Expect(intern.Alike(with(big), with(bigger))).To(BeFalse())
	g.Expect(intern.Alike(with("1"), with("2"))).To(BeFalse())
}

// Alike ignores a change of a lazy value and sees all other changes.
func TestAlikeDoesNotLookAtLazyValues(t *testing.T) {
	g := NewWithT(t)
	a, b := measured(1), measured(1)
	g.Expect(intern.Alike(a, b)).To(BeTrue())
	*limitOf(b) = resource.MustParse("2Gi")
	g.Expect(intern.Alike(a, b)).To(BeTrue())
	b.Spec.Volumes[0].Name = "other"
	g.Expect(intern.Alike(a, b)).To(BeFalse())

	behavior := func(n int32) *autoscalingv2.HorizontalPodAutoscaler {
		return &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: n}}
	}
	g.Expect(intern.Alike(behavior(1), behavior(1))).To(BeTrue())
	g.Expect(intern.Alike(behavior(1), behavior(2))).To(BeFalse())
}

func TestAlikeComparesMapsOfAnyKind(t *testing.T) {
	type odd struct {
		M map[int]*corev1.EmptyDirVolumeSource
	}
	g := NewWithT(t)
	of := func(medium corev1.StorageMedium, limit string) *odd {
		q := resource.MustParse(limit)
		return &odd{map[int]*corev1.EmptyDirVolumeSource{1: {Medium: medium, SizeLimit: &q}}}
	}
	g.Expect(intern.Alike(of("Memory", "1"), of("Memory", "2"))).To(BeTrue())
	g.Expect(intern.Alike(of("Memory", "1"), of("", "1"))).To(BeFalse())
	other := of("Memory", "1")
	other.M[2] = nil
	g.Expect(intern.Alike(of("Memory", "1"), other)).To(BeFalse())
	g.Expect(intern.Alike(of("Memory", "1"), &odd{})).To(BeFalse())
	other = of("Memory", "1")
	other.M = map[int]*corev1.EmptyDirVolumeSource{2: other.M[1]}
	g.Expect(intern.Alike(of("Memory", "1"), other)).To(BeFalse())
}

// Methods that write to a value when they read it use its unexported fields.
// The test lists all types with unexported fields in the built-in kinds. If it
// finds a new type, find out what its methods do. Until then the type is not
// shared.
func TestTypesThatHideFields(t *testing.T) {
	found := map[string]bool{}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Map:
			walk(typ.Key())
			walk(typ.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				if !f.IsExported() {
					found[typ.String()] = true
					return
				}
			}
			for f := range typ.Fields() {
				walk(f.Type)
			}
		}
	}
	kinds := scheme.Scheme.AllKnownTypes()
	for gvk, typ := range kinds {
		if !strings.HasPrefix(gvk.Version, "__") {
			walk(typ)
		}
	}
	g := NewWithT(t)
	g.Expect(len(kinds)).To(BeNumerically(">", 500))
	g.Expect(found).To(Equal(map[string]bool{"resource.Quantity": true, "time.Time": true}))
}
