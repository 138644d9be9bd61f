package reconcile

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/parts"
)

// leased counts the keys that wait for a resourceVersion.
type leased struct {
	source
	waiting *int
}

func (l leased) Parts() parts.Cache { return counting{l.source.Parts(), l.waiting} }

// counting are the parts of a leased.
type counting struct {
	parts.Cache
	waiting *int
}

func (l counting) OnSeen(namespace, version string, f func()) (cancel func()) {
	*l.waiting++
	inner := l.Cache.OnSeen(namespace, version, f)
	return func() {
		*l.waiting--
		inner()
	}
}

func (leased) LastResourceVersion() string { return "40" }

func TestAKeyThatNoLongerWaitsForAnObjectLeavesOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		in := informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)
		f := &freshness{
			queue: newTestQueue(g), deadline: time.Minute, onSeen: func(Key) {}, sources: []source{typed[*corev1.ConfigMap]{in}},
		}
		object := written("", "")
		for _, name := range []string{"late", "other"} {
			f.queue.Add(Key{Name: name})
			item, err := f.queue.Get(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(f.hold(item, []write{{object: object, outcome: ownwrites.Written}})).To(BeTrue())
			item.After(0)
		}
		g.Expect(f.overdue(Key{Name: "late"})).To(BeTrue())
		f.observed(0, nil, object)
		began := time.Now()
		item, err := f.queue.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(item.Key().Name).To(Equal("other"))
		g.Expect(time.Since(began)).To(BeZero(), "it need not wait for its deadline")
		g.Expect(f.expects).To(BeEmpty())
	})
}

func TestAnOverdueKeyNoLongerWaitsForWhatItHasNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		in := informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)
		waiting, key := 0, Key{Namespace: "d", Name: "a"}
		f := &freshness{
			queue: newTestQueue(g), deadline: time.Minute, onSeen: func(Key) {},
			sources: []source{leased{typed[*corev1.ConfigMap]{in}, &waiting}},
		}
		f.queue.Add(key)
		item, err := f.queue.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		writes := []write{
			{object: written("41", ""), outcome: ownwrites.Written}, {object: written("42", ""), outcome: ownwrites.Written},
		}
		g.Expect(f.hold(item, writes)).To(BeTrue())
		item.After(time.Second)
		g.Expect(waiting).To(Equal(2))
		_, err = f.queue.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(f.overdue(key)).To(BeTrue())
		g.Expect(waiting).To(BeZero())
	})
}

// The cache shows the object after the first write, and removes it after the
// second.
func TestAKeyWaitsForTheWriteThatTakesAnObjectOutOfScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		in := informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), &informer.Options{LabelSelector: "a=b"})
		waiting := 0
		f := &freshness{
			queue: newTestQueue(g), deadline: time.Minute, onSeen: func(Key) {},
			sources: []source{leased{typed[*corev1.ConfigMap]{in}, &waiting}},
		}
		f.queue.Add(Key{Name: "a"})
		item, err := f.queue.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		first, second := written("41", ""), written("42", "")
		first.Labels = map[string]string{"a": "b"}
		writes := []write{{object: first, outcome: ownwrites.Written}, {object: second, outcome: ownwrites.Written}}
		g.Expect(f.hold(item, writes)).To(BeTrue())
		g.Expect(waiting).To(Equal(2))
	})
}

// unanswered asks the server until the context ends.
type unanswered struct{ source }

func (unanswered) WaitForObject(ctx context.Context, _ Key) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestAnOverdueKeyAsksTheServerNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		in := informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)
		f := &freshness{
			queue: newTestQueue(g), deadline: time.Minute, onSeen: func(Key) {},
			sources: []source{unanswered{typed[*corev1.ConfigMap]{in}}},
		}
		var asking sync.WaitGroup
		defer f.attach(t.Context(), &asking)()
		f.queue.Add(Key{Name: "a"})
		item, err := f.queue.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(f.hold(item, []write{{object: written("", ""), outcome: ownwrites.Uncertain}})).To(BeTrue())
		g.Expect(f.overdue(Key{Name: "a"})).To(BeTrue())
		began := time.Now()
		asking.Wait()
		g.Expect(time.Since(began)).To(BeZero())
	})
}

// caching has one object, at a resourceVersion that cannot be compared.
type caching struct {
	source
	object *corev1.ConfigMap
}

func (c caching) cached(Key) metav1.Object { return c.object }

func TestAnOlderStateWhoseResourceVersionCannotBeComparedIsNotTheWrite(t *testing.T) {
	for cached, held := range map[string]bool{"x1": true, "x2": false} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			in := informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)
			f := &freshness{
				queue: newTestQueue(g), deadline: time.Minute, onSeen: func(Key) {},
				sources: []source{caching{typed[*corev1.ConfigMap]{in}, written(cached, "")}},
			}
			f.queue.Add(Key{Name: "a"})
			item, err := f.queue.Get(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			f.hold(item, []write{{object: written("x2", ""), outcome: ownwrites.Written}})
			g.Expect(f.overdue(Key{Name: "a"})).To(Equal(held))
		})
	}
}
