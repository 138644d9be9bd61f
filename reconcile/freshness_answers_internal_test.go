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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/queue"
)

// view is what a test decides of a cache of ConfigMaps. It counts what the
// server is asked, and for how long keys wait for a resourceVersion.
type view struct {
	source
	newest  string // resourceVersion
	object  *corev1.ConfigMap
	asked   []string
	waiting []func() // nil once cancelled
	fails   error    // of a question
}

func (v *view) LastResourceVersion() string { return v.newest }

func (v *view) cached(Key) metav1.Object {
	if v.object == nil {
		return nil
	}
	return v.object
}

func (v *view) WaitForObject(ctx context.Context, key Key) error {
	v.asked = append(v.asked, key.String())
	if v.fails != nil {
		return v.fails
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (v *view) WaitForLatest(ctx context.Context) error {
	v.asked = append(v.asked, "all")
	<-ctx.Done()
	return context.Cause(ctx)
}

func (v *view) Parts() parts.Cache { return viewed{v.source.Parts(), v} }

// viewed are the parts of a view.
type viewed struct {
	parts.Cache
	*view
}

func (v viewed) OnSeen(_, _ string, f func()) (cancel func()) {
	n := len(v.waiting)
	v.waiting = append(v.waiting, f)
	return func() { v.waiting[n] = nil }
}

// viewer is a freshness with one view.
type viewer struct {
	*WithT
	*freshness
	*view
	item   queue.Item[Key]
	detach func()
	stop   context.CancelFunc
}

func inView(t *testing.T, o *informer.Options, f func(w *viewer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		v := &view{source: typed[*corev1.ConfigMap]{informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), o)}}
		w := &viewer{WithT: g, view: v, freshness: &freshness{
			queue: newTestQueue(g), deadline: time.Minute, onSeen: func(Key) {}, sources: []source{v},
		}}
		var asking sync.WaitGroup
		var ctx context.Context
		ctx, w.stop = context.WithCancel(t.Context())
		w.detach = w.attach(ctx, &asking)
		w.queue.Add(Key{Name: "a"})
		var err error
		w.item, err = w.queue.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		f(w)
		w.detach()
		w.stop()
		asking.Wait()
	})
}

// holds makes the key wait for a write, and reports whether it waits for
// anything.
func (w *viewer) holds(of write) bool { return w.hold(w.item, []write{of}) }

var ofConfigMaps = schema.GroupResource{Resource: "configmaps"} //nolint:gochecknoglobals // constant

// An answer may come when the key has been reconciled at its deadline. Nothing
// waits for what it shows then.
func TestAnAnswerThatComesAfterTheDeadlineIsNotWaitedFor(t *testing.T) {
	for name, answered := range map[string]write{
		"written":                        {object: written("41", ""), outcome: ownwrites.Written},
		"written, of no known order":     {object: written("x", ""), outcome: ownwrites.Written},
		"accepted, of an unknown object": {object: written("41", ""), outcome: ownwrites.Accepted},
		"uncertain":                      {object: written("", ""), outcome: ownwrites.Uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			inView(t, nil, func(w *viewer) {
				w.newest = "40"
				var comes func(write)
				sent := write{object: answered.object, whenAnswered: func(f func(write)) { comes = f }}
				w.Expect(w.holds(sent)).To(BeTrue())
				w.Expect(w.overdue(Key{Name: "a"})).To(BeTrue())
				comes(answered)
				synctest.Wait()
				w.Expect(w.asked).To(BeEmpty())
				w.Expect(w.expects).To(BeEmpty())
				w.Expect(w.waiting).NotTo(ContainElement(Not(BeNil())))
				w.Expect(w.freshness.held).To(BeEmpty())
			})
		})
	}
}

// The answer about a scale, for example, does not show whether the object is in
// a cache with selectors.
func TestTheServerIsAskedAboutAnObjectThatMayBeInScope(t *testing.T) {
	selects := &informer.Options{LabelSelector: "a=b"}
	scaled := func(uid types.UID) *answer.Object {
		o := &answer.Object{Unlabelled: true}
		o.Namespace, o.Name, o.UID, o.ResourceVersion = "d", "a", uid, "41"
		return o
	}
	for name, c := range map[string]struct {
		options *informer.Options
		object  *answer.Object
		of      ownwrites.Outcome
		asked   []string
	}{
		"written":                    {selects, scaled("1"), ownwrites.Written, []string{"d/a"}},
		"in scope":                   {nil, scaled("1"), ownwrites.Written, nil},
		"deleted, of no known UID":   {nil, scaled(""), ownwrites.Accepted, []string{"d/a"}},
		"deleted, of no known order": {selects, scaled("1"), ownwrites.Accepted, []string{"d/a"}},
		"many deleted":               {nil, &answer.Object{}, ownwrites.Uncertain, []string{"all"}},
	} {
		t.Run(name, func(t *testing.T) {
			inView(t, c.options, func(w *viewer) {
				w.Expect(w.holds(write{object: c.object, outcome: c.of, resource: ofConfigMaps})).To(BeTrue())
				synctest.Wait()
				w.Expect(w.asked).To(Equal(c.asked))
			})
		})
	}
}

func TestAKeyWaitsForADeletionThatTheCacheHasNotShown(t *testing.T) {
	marked := func(uid types.UID) *corev1.ConfigMap {
		o := written("41", "")
		o.UID, o.DeletionTimestamp = uid, &metav1.Time{}
		return o
	}
	other := written("41", "")
	other.UID = "2"
	for name, c := range map[string]struct {
		newest   string
		cached   *corev1.ConfigMap
		of       ownwrites.Outcome
		held     bool
		released bool // when the cache has seen the resourceVersion
	}{
		"marked":                              {"40", marked("1"), ownwrites.Accepted, false, false},
		"a different one is marked":           {"40", marked("2"), ownwrites.Accepted, true, true},
		"not marked":                          {"40", written("40", ""), ownwrites.Accepted, true, false},
		"marked, but to be removed":           {"40", marked("1"), ownwrites.Removed, true, false},
		"not cached":                          {"40", nil, ownwrites.Accepted, true, true},
		"recreated":                           {"40", other, ownwrites.Removed, true, true},
		"not cached, of a fake":               {"x", nil, ownwrites.Accepted, false, false},
		"not cached, of one without versions": {"", nil, ownwrites.Removed, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inView(t, nil, func(w *viewer) {
				w.newest, w.object = c.newest, c.cached
				w.Expect(w.holds(write{object: written("41", ""), outcome: c.of})).To(Equal(c.held))
				for _, seen := range w.waiting {
					seen()
				}
				w.Expect(w.overdue(Key{Name: "a"})).To(Equal(c.held && !c.released))
			})
		})
	}
}

// The cache will show the deletion of the object later.
func TestAKeyWaitsForADeletionOfAnObjectThatTheCacheHasYetToShow(t *testing.T) {
	inView(t, nil, func(w *viewer) {
		w.newest = "40"
		w.Expect(w.holds(write{object: written("41", ""), outcome: ownwrites.Accepted})).To(BeTrue())
		w.object = written("41", "")
		w.waiting[0]()
		w.Expect(w.freshness.held).NotTo(BeEmpty())
		w.observed(0, w.object, nil)
		w.Expect(w.freshness.held).To(BeEmpty())
	})
}

// A request that the transport has seen has a UID, or is of the object that was
// cached when it was sent.
func TestTheDeletionOfARequestConcernsOneUID(t *testing.T) {
	sent := func(uid types.UID) write {
		o := written("41", "")
		o.UID = uid
		return write{object: o, outcome: ownwrites.Accepted, resource: ofConfigMaps}
	}
	inView(t, nil, func(w *viewer) {
		w.newest = "40"
		w.Expect(w.holds(sent("1"))).To(BeTrue())
		synctest.Wait()
		w.Expect(w.asked).To(BeEmpty())
		w.Expect(w.waiting).To(HaveLen(1))
	})
	inView(t, nil, func(w *viewer) {
		w.newest, w.object = "40", written("40", "")
		of := sent("")
		of.baselines = append(w.takeBaselines(&of), &baseline{objectRef: objectRef{source: 1}, uid: "9"})
		w.Expect(w.holds(of)).To(BeTrue())
		synctest.Wait()
		w.Expect(w.asked).To(BeEmpty())
		w.observed(0, w.object, nil)
		w.Expect(w.freshness.held).To(BeEmpty())
	})
}

func TestAKeyWaitsForTheEventOfADeletion(t *testing.T) {
	other, marked := written("42", ""), written("42", "")
	other.UID, marked.DeletionTimestamp = "2", &metav1.Time{}
	for name, c := range map[string]struct {
		before, after metav1.Object
		of            ownwrites.Outcome
		held          bool
	}{
		"removed":                   {written("41", ""), nil, ownwrites.Accepted, false},
		"a different one removed":   {other, nil, ownwrites.Accepted, true},
		"changed":                   {written("41", ""), written("42", ""), ownwrites.Accepted, true},
		"marked":                    {written("41", ""), marked, ownwrites.Accepted, false},
		"marked, but to be removed": {written("41", ""), marked, ownwrites.Removed, true},
	} {
		t.Run(name, func(t *testing.T) {
			inView(t, nil, func(w *viewer) {
				w.newest, w.object = "40", written("40", "")
				w.Expect(w.holds(write{object: written("41", ""), outcome: c.of})).To(BeTrue())
				w.observed(0, c.before, c.after)
				w.Expect(w.overdue(Key{Name: "a"})).To(Equal(c.held))
			})
		})
	}
}

func TestADeletionThatTheCacheShowsTwiceIsWaitedForOnce(t *testing.T) {
	inView(t, nil, func(w *viewer) {
		w.newest, w.object = "40", written("40", "")
		w.object.DeletionTimestamp = &metav1.Time{}
		w.Expect(w.hold(w.item, []write{
			{object: written("41", ""), outcome: ownwrites.Accepted}, {object: written("42", ""), outcome: ownwrites.Written},
		})).To(BeTrue())
		w.observed(0, w.object, nil)
		w.object = nil
		w.Expect(w.freshness.held).NotTo(BeEmpty(), "it waits for the second write")
		w.waiting[0]()
		w.Expect(w.freshness.held).To(BeEmpty())
	})
}

func TestAKeyWhoseQuestionFailsWaitsForItsDeadline(t *testing.T) {
	inView(t, nil, func(w *viewer) {
		w.fails = context.DeadlineExceeded
		w.Expect(w.holds(write{object: written("", ""), outcome: ownwrites.Uncertain})).To(BeTrue())
		synctest.Wait()
		w.Expect(w.asked).To(Equal([]string{"d/a"}))
		w.Expect(w.overdue(Key{Name: "a"})).To(BeTrue())
	})
}

func TestAStoppedControllerAsksNothing(t *testing.T) {
	for name, end := range map[string]func(*viewer){
		"stopped": func(w *viewer) { w.stop() }, "detached": func(w *viewer) { w.detach() },
	} {
		t.Run(name, func(t *testing.T) {
			inView(t, nil, func(w *viewer) {
				end(w)
				w.holds(write{object: written("", ""), outcome: ownwrites.Uncertain})
				synctest.Wait()
				w.Expect(w.asked).To(BeEmpty())
			})
		})
	}
}
