package intern

import (
	"fmt"
	"math/bits"
	"math/rand"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// attackers is how many parts an object of about a megabyte has.
const attackers = 20_000

// chosen returns numbers that all had their place in one and the same run of the
// table when a number was hashed by a function without a key, and random ones.
func chosen(random *rand.Rand) (same, others []int64) {
	const golden = 0x9e3779b97f4a7c15
	inverse := uint64(golden)
	for range 6 { // Newton's method, modulo 2⁶⁴
		inverse *= 2 - golden*inverse
	}
	salt := uint64(planOf(reflect.TypeFor[int64]()).number) * golden
	for n := range uint64(attackers) {
		same = append(same, int64(bits.RotateLeft64(salt, 23)*golden^n*inverse))
		others = append(others, int64(random.Uint64()))
	}
	return same, others
}

// tolerant and privileged return Pods that hold these numbers.
func tolerant(numbers []int64) *corev1.Pod {
	p := &corev1.Pod{}
	for n := range numbers {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{TolerationSeconds: &numbers[n]})
	}
	return p
}

func privileged(numbers []int64) *corev1.Pod {
	p := &corev1.Pod{}
	for n := range numbers {
		p.Spec.Containers = append(p.Spec.Containers,
			corev1.Container{SecurityContext: &corev1.SecurityContext{RunAsUser: &numbers[n]}})
	}
	return p
}

// probes counts the entries that are looked at while some Pods with the numbers come.
func probes(pod func(numbers []int64) *corev1.Pod, numbers []int64) (sum uint64) {
	s := New()
	for n := range 3 {
		p := pod(numbers).DeepCopy()
		p.Name, p.Spec.Hostname = fmt.Sprint("p-", n), fmt.Sprint("h-", n)
		for i := range p.Spec.Containers { // so that each is looked for by itself
			p.Spec.Containers[i].Name = fmt.Sprint("c-", n)
			p.Spec.Containers[(i+n)%len(p.Spec.Containers)].SecurityContext = pod(numbers[i : i+1]).Spec.Containers[0].SecurityContext
		}
		s.Object(p)
	}
	for i := range s.known {
		sum += s.known[i].probes
	}
	return sum
}

// Whoever may create an object chooses its numbers. They must not cost others more than any numbers do.
func TestChosenNumbersCostNoMoreThanRandomOnes(t *testing.T) {
	same, others := chosen(rand.New(rand.NewSource(1)))
	for name, pod := range map[string]func([]int64) *corev1.Pod{"tolerations": tolerant, "security contexts": privileged} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			attack, random := probes(pod, same), probes(pod, others)
			t.Logf("%d probes, %d with random numbers", attack, random)
			g.Expect(attack).To(gomega.BeNumerically("<=", 2*random))
			g.Expect(attack).To(gomega.BeNumerically("<=", 3*attackers*20), "a few for each part")
		})
	}
}

// Even if all hashes were the same, a search would end, and what finds no room would not be known.
func TestASearchIsShortWhateverTheHashes(t *testing.T) {
	g := gomega.NewWithT(t)
	var all table
	parts := make([]byte, 1000)
	for n := range parts {
		before := all.probes
		all.put(1<<63, shapeOf(text, nil, n), &parts[n])
		g.Expect(all.get(1<<63, shapeOf(text, nil, n+1))).To(gomega.BeNil())
		all.sighted(1<<63, uint32(n))
		g.Expect(all.probes-before).To(gomega.BeNumerically("<=", longestProbe*(longestProbe+2)+ways), "with a rebuild")
	}
	g.Expect(all.used).To(gomega.BeNumerically("<=", longestProbe))
}

// Parts that are different and have the same hash stay what they are.
func TestEqualHashesOfDifferentPartsDoNoHarm(t *testing.T) {
	long, other := strings.Repeat("a", 100), strings.Repeat("b", 100)
	labels := func(value string) map[string]string { return map[string]string{"app": value} }
	values := func(value string) []string { return []string{value, "2", "3", "4"} }
	options := func(value string) *corev1.SELinuxOptions { return &corev1.SELinuxOptions{Level: value} }
	spec := func(value string) any { return map[string]any{"a": []any{value}} }
	for name, c := range map[string]struct {
		object    func(value string) any
		hash      func(s *Pool) (uint64, bool)
		what      shape
		different place
	}{
		"text": {
			func(value string) any { return &corev1.PodSpec{NodeName: value} },
			func(s *Pool) (uint64, bool) { return s.textHash(long), true },
			shapeOf(text, nil, 100), placeOfText(other),
		},
		"map": {
			func(value string) any { return &corev1.PodSpec{NodeSelector: labels(value)} },
			func(s *Pool) (uint64, bool) { return s.hashMap(placeOf(labels(long)), stringMap) },
			shapeOf(stringMap, nil, 1), placeOf(labels(other)),
		},
		"list": {
			func(value string) any { return &corev1.Container{Command: values(value)} },
			func(s *Pool) (uint64, bool) {
				l := values(long)
				return s.hashList(listAt(placeOfValue(&l)), planOf(reflect.TypeFor[string]()))
			},
			shapeOf(list, planOf(reflect.TypeFor[string]()), 4), placeOfList(values(other)),
		},
		"pointer": {
			func(value string) any { return &corev1.SecurityContext{SELinuxOptions: options(value)} },
			func(s *Pool) (uint64, bool) { return s.hash(pointee(options(long))) },
			shapeOf(pointer, planOf(reflect.TypeFor[corev1.SELinuxOptions]()), 1), placeOfValue(options(other)),
		},
		"content": {
			func(value string) any { return &struct{ Spec any }{spec(value)} },
			func(s *Pool) (uint64, bool) { return s.hashAny(spec(long)) },
			shapeOf(dynamicMap, nil, 1), dataOf(spec(other)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := gomega.NewWithT(t), New()
			hash, ok := c.hash(s)
			g.Expect(ok).To(gomega.BeTrue())
			s.learn(hash, c.what, c.different)
			g.Expect(s.find(hash, c.what)).To(gomega.Equal(c.different))
			for range 3 {
				object := c.object(long)
				s.Object(object)
				g.Expect(object).To(gomega.Equal(c.object(long)))
			}
			runtime.KeepAlive(c.different)
		})
	}
}

// What is compared has one length: a shape with less room than that would have parts of two.
func TestNoShapeOfWhatIsTooLong(t *testing.T) {
	g := gomega.NewWithT(t)
	elem := planOf(reflect.TypeFor[string]())
	g.Expect(shapeOf(list, elem, longest)).NotTo(gomega.BeZero())
	g.Expect(shapeOf(list, elem, longest+1)).To(gomega.BeZero())
	g.Expect(shapeOf(list, &plan{number: 1<<planBits - 1}, 1)).NotTo(gomega.BeZero())
	g.Expect(shapeOf(list, &plan{number: 1 << planBits}, 1)).To(gomega.BeZero())
}

func TestHashesAreKeyed(t *testing.T) {
	g := gomega.NewWithT(t)
	type numbers struct {
		A int64
		B *int32
		C float64
	}
	b := int32(3)
	value := &numbers{1, &b, 2}
	for name, hash := range map[string]func(s *Pool) (uint64, bool){
		"structs": func(s *Pool) (uint64, bool) { return s.hash(pointee(value)) },
		"content": func(s *Pool) (uint64, bool) {
			return s.hashAny(map[string]any{"a": int64(1), "b": []any{2.5, true, "c"}})
		},
	} {
		s := New()
		x, ok := hash(s)
		g.Expect(ok).To(gomega.BeTrue())
		again, _ := hash(s)
		g.Expect(again).To(gomega.Equal(x), name)
		other, _ := hash(New())
		g.Expect(other).NotTo(gomega.Equal(x), name)
	}
}
