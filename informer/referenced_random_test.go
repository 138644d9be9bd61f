package informer_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
)

var (
	referenceSteps = flag.Int("reference-steps", 20_000, "steps of the random world of references")
	referenceSeed  = flag.Uint64("reference-seed", 0, "the first seed of the random world of references")
)

// referenceModel is a simple model of a cache of references: the cache shows
// the objects that are held and that the server has.
type referenceModel struct {
	*referenceWorld

	random  *rand.Rand
	holds   map[types.NamespacedName]int
	exists  map[types.NamespacedName]string // the value
	events  map[types.NamespacedName]string // as handlers were told
	stopped bool                            // no call of Run is active
	byNames bool                            // each object has a watch of its own
	counter int
	deleted map[types.NamespacedName]int // the counter at the last deletion
	seen    int                          // writes that were seen

	backup   int64 // a version of the server
	restore  map[types.NamespacedName]string
	restores atomic.Int64
}

// key returns one of a few keys of a few namespaces.
func (m *referenceModel) key() types.NamespacedName {
	return types.NamespacedName{Namespace: m.namespace(), Name: fmt.Sprint("s", m.random.IntN(6))}
}

func (m *referenceModel) namespace() string { return fmt.Sprint("n", m.random.IntN(4)) }

// hear checks that each event follows from the previous one.
func (m *referenceModel) hear(e informer.Event[*corev1.Secret]) {
	of := e.New
	if of == nil {
		of = e.Old
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
	before, known := m.events[key]
	differs := known && e.Type != informer.Deleted && before != string(e.Old.Data["v"]) // the last state may be newer
	if known != (e.Type != informer.Added) || differs {
		m.t.Errorf("%v of %v: before it handlers knew %q, %v", e.Type, key, before, known)
	}
	if e.Type == informer.Deleted {
		delete(m.events, key)
	} else {
		m.events[key] = string(of.Data["v"])
	}
}

// step takes a random action.
func (m *referenceModel) step() {
	key := m.key()
	secrets := m.admin.CoreV1().Secrets(key.Namespace)
	ctx := context.Background()
	switch n := m.random.IntN(100); {
	case n < 20:
		m.holds[key]++
		m.secrets.Parts().Hold(key)
	case n < 40:
		if m.holds[key] > 0 {
			m.holds[key]--
			m.secrets.Parts().Release(key)
		}
	case n < 65:
		m.counter++
		value := fmt.Sprint(m.counter)
		object := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name}, Data: map[string][]byte{"v": []byte(value)},
		}
		written, err := secrets.Update(ctx, object, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			written, err = secrets.Create(ctx, object, metav1.CreateOptions{})
		}
		m.Expect(err).NotTo(HaveOccurred())
		m.exists[key] = value
		m.expectSeen(key, written.ResourceVersion, m.counter)
	case n < 77:
		if _, ok := m.exists[key]; ok {
			m.delete(key)
		}
	case n < 79: // the namespace vanishes
		for other := range m.exists {
			if other.Namespace == key.Namespace {
				m.delete(other)
			}
		}
	case n < 82:
		m.forbid(key.Namespace, m.random.IntN(2) == 0)
	case n < 83:
		m.allowNames(key.Namespace, m.random.IntN(2) == 0)
	case n < 86:
		m.server.DropWatches("operator", "secrets")
	case n < 87:
		m.server.Compact("secrets")
	case n < 88:
		m.delayLists("metadata.name="+key.Name, time.Duration(m.random.IntN(3))*time.Second)
	case n < 90:
		m.server.Bookmark()
	case n < 91:
		m.secrets.Parts().Renew()
	case n < 93:
		if m.secrets.IsDeleted(ctx, key) {
			_, exists := m.exists[key]
			m.Expect(exists).To(BeFalse(), "%v exists", key)
		}
	case n < 94:
		m.backUpOrRestore()
	case n < 95:
		m.stopOrRun()
	case n < 99:
		lapse(time.Duration(m.random.IntN(3000)) * time.Millisecond)
	default:
		lapse(time.Duration(m.random.IntN(20)) * time.Minute)
	}
}

// delete deletes a Secret. It notes that first, because the cache may show the
// deletion before the call returns.
func (m *referenceModel) delete(key types.NamespacedName) {
	m.counter++
	m.mu.Lock()
	m.deleted[key] = m.counter
	m.mu.Unlock()
	m.Expect(m.admin.CoreV1().Secrets(key.Namespace).Delete(context.Background(), key.Name, metav1.DeleteOptions{})).
		To(Succeed())
	delete(m.exists, key)
}

// expectSeen checks that the cache is at least as new as a write when it
// reports that it has seen the write.
func (m *referenceModel) expectSeen(key types.NamespacedName, rv string, counter int) {
	restores := m.restores.Load()
	m.secrets.Parts().OnSeen(key, rv, func() {
		if m.restores.Load() != restores {
			return // the write may be lost
		}
		known, err := m.secrets.Parts().State(key)
		if !known || err != nil {
			return // nothing is read then
		}
		value := 0
		if got, ok := m.secrets.Get(key); ok {
			_, err := fmt.Sscan(string(got.Data["v"]), &value)
			m.Expect(err).NotTo(HaveOccurred())
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.seen++
		if max(value, m.deleted[key]) < counter {
			m.t.Errorf("write %d of %v is said to be seen, and the cache has %d", counter, key, value)
		}
	})
}

// stopOrRun lets the replica lose its leadership, or get it again.
func (m *referenceModel) stopOrRun() {
	if m.stopped {
		m.run()
	} else {
		m.Expect(m.stop()).To(Succeed())
	}
	m.stopped = !m.stopped
}

// backUpOrRestore restores the server to the last backup, which may be too old,
// or makes one. A server is down while it is restored.
func (m *referenceModel) backUpOrRestore() {
	if m.restore == nil || m.random.IntN(2) == 0 {
		m.backup, m.restore = m.server.Version(), maps.Clone(m.exists)
		return
	}
	m.restores.Add(1) // before watches begin again
	m.setDown(true)
	if m.server.Restore(m.backup) == nil { // it is not too old
		m.exists = maps.Clone(m.restore)
	}
	lapse(3 * time.Second)
	m.setDown(false)
}

// check compares the cache with the model when no event is pending.
func (m *referenceModel) check() {
	for n := range 4 {
		m.forbid(fmt.Sprint("n", n), false)
	}
	m.delayLists("", 0)
	if m.stopped {
		m.stopOrRun()
	}
	lapse(2 * time.Minute)
	m.forgetLog()
	cached := 0
	for ns := range 4 {
		for n := range 6 {
			key := types.NamespacedName{Namespace: fmt.Sprint("n", ns), Name: fmt.Sprint("s", n)}
			known, err := m.secrets.Parts().State(key)
			got, ok := m.secrets.Get(key)
			value := ""
			if ok {
				cached++
				value = string(got.Data["v"])
			}
			want := ""
			if m.holds[key] > 0 {
				want = m.exists[key]
			}
			if err != nil || known != (m.holds[key] > 0) || value != want || m.events[key] != want ||
				m.secrets.Parts().Holds(key) != (m.holds[key] > 0) {
				m.t.Fatalf("%v, held %d times, is known: %v %v, is %q, handlers have %q, and the server has %q",
					key, m.holds[key], known, err, value, m.events[key], m.exists[key])
			}
		}
	}
	m.Expect(m.secrets.Snapshot().Len()).To(Equal(cached))
	held := 0
	for _, n := range m.holds {
		if n > 0 {
			held++
		}
	}
	s := m.secrets.Status()
	m.Expect(s.References).To(Equal(held))
	m.Expect(s.Problems).To(BeEmpty())
	if m.byNames { // some may be about to be replaced: those that delivered nothing for so long, and all at once
		for range 20 {
			if m.secrets.Status().OpenWatches == held {
				return
			}
			lapse(time.Second)
		}
		m.Expect(m.secrets.Status().OpenWatches).To(Equal(held))
	}
}

func TestReferencesAreAsAPlainModelSays(t *testing.T) {
	for seed := *referenceSeed; seed < *referenceSeed+4; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: []int{100, 1, 2, 3}[seed%4]})
				m := &referenceModel{
					referenceWorld: w, random: rand.New(rand.NewPCG(seed, 1)), byNames: seed%4 == 0,
					deleted: map[types.NamespacedName]int{},
					holds:   map[types.NamespacedName]int{},
					exists:  map[types.NamespacedName]string{}, events: map[types.NamespacedName]string{},
				}
				for n := range 4 {
					_, err := w.admin.CoreV1().Namespaces().Create(t.Context(),
						&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}, metav1.CreateOptions{})
					w.Expect(err).NotTo(HaveOccurred())
				}
				w.secrets.Handle(m.hear)
				for n := range *referenceSteps / 4 {
					m.step()
					if n%200 == 199 {
						m.check()
					}
				}
				m.check()
				w.Expect(m.seen).To(BeNumerically(">", *referenceSteps/100))
				w.Expect(w.stop()).To(Succeed())
			})
		})
	}
}
