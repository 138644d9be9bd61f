package reconcile

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/queue"
)

func newTestQueue(g *WithT) *queue.Queue[Key] {
	q, err := queue.New[Key](nil)
	g.Expect(err).NotTo(HaveOccurred())
	return q
}

func written(version, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "1", ResourceVersion: version},
		Data:       map[string]string{"v": value},
	}
}

// A key writes and is woken by its write each time, but in between there is a
// reconcile without a write: then the write is not what the last reconcile wrote.
func TestWhatAnEarlierReconcileWroteIsNoEcho(t *testing.T) {
	g := NewWithT(t)
	d, q, key := loopDetector{}, newTestQueue(g), Key{Namespace: "d", Name: "a"}
	reconcile := func(woken string, writes ...write) bool {
		q.AddWithOptions(key, queue.AddOptions{Cause: queue.Cause{Trigger: "maps", Name: "a", NewVersion: woken}})
		item, err := q.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		defer item.Done()
		_, slow := d.observe(item, writes)
		return slow
	}
	for _, between := range []bool{true, false} {
		slowed := false
		for i := range 50 {
			before, now := strconv.Itoa(i), strconv.Itoa(i+1)
			slowed = reconcile(before, write{before: written(before, before), object: written(now, now)}) || slowed
			if between {
				slowed = reconcile("other") || slowed
			}
		}
		g.Expect(slowed).To(Equal(!between), "a reconcile in between: %v", between)
	}
}

func TestANamesakeStartsAfresh(t *testing.T) {
	g := NewWithT(t)
	for _, replaced := range []bool{true, false} {
		d, q, key := loopDetector{}, newTestQueue(g), Key{Namespace: "d", Name: "a"}
		slowed := false
		for i := range 40 {
			before, now := written(strconv.Itoa(i), "theirs"), written(strconv.Itoa(i+1), "ours")
			if replaced {
				before.UID = types.UID(strconv.Itoa(i / 8))
				now.UID = before.UID
			}
			q.Add(key)
			item, err := q.Get(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			_, slow := d.observe(item, []write{{before: before, object: now}})
			slowed = slowed || slow
			item.Done()
		}
		g.Expect(slowed).To(Equal(!replaced), "replaced: %v", replaced)
	}
}

func TestWritesAtMostTenSecondsApartAreAHotLoop(t *testing.T) {
	for _, apart := range []time.Duration{calm, calm + 1} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			d, q := loopDetector{}, newTestQueue(g)
			slowed := false
			for range 2 * (patience + suspicious) {
				<-time.After(apart)
				q.Add(Key{Name: "a"})
				item, err := q.Get(t.Context())
				g.Expect(err).NotTo(HaveOccurred())
				_, slow := d.observe(item, []write{{before: written("1", "theirs"), object: written("2", "ours")}})
				slowed = slowed || slow
				item.Done()
			}
			g.Expect(slowed).To(Equal(apart == calm), "%v apart", apart)
		})
	}
}

// The fifth write to an object in a row is the first that is compared, and five times it may be repeated.
func TestTheTenthWriteOfOneThingIsSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		d, q := loopDetector{}, newTestQueue(g)
		for n := range 12 {
			q.Add(Key{Name: "a"})
			item, err := q.Get(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			_, slow := d.observe(item, []write{{before: written("1", "theirs"), object: written("2", "ours")}})
			g.Expect(slow).To(Equal(n >= 9), "write %d", n+1)
			item.Done()
		}
	})
}

func TestTheDelayOfAHotLoopDoublesUpToAMinute(t *testing.T) {
	g := NewWithT(t)
	delay := func(repeats int) time.Duration { return hotLoop{repeats: patience + repeats}.delay() }
	g.Expect(delay(1)).To(BeNumerically("~", 2*time.Second, 200*time.Millisecond))
	for n := 1; n < 6; n++ {
		g.Expect(delay(n + 1)).To(Equal(2 * delay(n)))
	}
	g.Expect(delay(6)).To(Equal(time.Minute))
	g.Expect(delay(1000)).To(Equal(time.Minute))
}

func TestTheRivalIsTheOtherManagerThatWroteLast(t *testing.T) {
	g := NewWithT(t)
	at := func(seconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(seconds, 0)} }
	object := written("1", "")
	object.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "first", Time: at(1)}, {Manager: "rival", Time: at(3)}, {Manager: "us", Time: at(4)}, {Manager: "second", Time: at(2)},
	}
	g.Expect(rivalOf(object, "us")).To(Equal("rival"))
	object.ManagedFields = object.ManagedFields[2:3]
	g.Expect(rivalOf(object, "us")).To(BeEmpty())
}

func TestABoundedNumberOfObjectsIsWatchedForHotLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		d, q := loopDetector{}, newTestQueue(g)
		loops := func(uids ...string) (found bool) {
			writes := make([]write, len(uids))
			for i, uid := range uids {
				before, now := written("1", "theirs"), written("2", "ours")
				before.UID, now.UID = types.UID(uid), types.UID(uid)
				writes[i] = write{before: before, object: now}
			}
			q.Add(Key{Name: "a"})
			item, err := q.Get(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			defer item.Done()
			_, found = d.observe(item, writes)
			return found
		}
		var many []string
		for i := range tracked + 100 {
			many = append(many, strconv.Itoa(i))
		}
		loops(many...)
		g.Expect(d.objects).To(HaveLen(tracked))
		fights := func(uid string) (found bool) {
			for range 2 * (patience + suspicious) {
				found = loops(uid)
			}
			return found
		}
		g.Expect(fights("0")).To(BeTrue())
		<-time.After(2 * calm)
		g.Expect(fights("new")).To(BeTrue(), "the others are calm")
		g.Expect(d.objects).To(HaveKey(types.UID("0")), "its key was slowed down for longer")
		g.Expect(d.objects).To(HaveLen(2))
	})
}

// An answer of the server may have its kind where the cached object has none.
func TestTheKindIsNoChangedField(t *testing.T) {
	g := NewWithT(t)
	cached, answer := written("1", "x"), written("2", "x")
	answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	paths, digest := changes(cached, answer)
	g.Expect(paths).To(BeEmpty())
	answer.Data["v"] = "y"
	paths, changed := changes(cached, answer)
	g.Expect(paths).To(Equal([]string{"data.v"}))
	g.Expect(changed).NotTo(Equal(digest))
}

// slowedDownAt observes reconciles of one key, each woken by the write of the one before, and returns the first write
// that is slowed down, 0 if none is.
func slowedDownAt(t *testing.T, writes func(n int) write) (first int) {
	t.Helper()
	g := NewWithT(t)
	d, q, last := loopDetector{}, newTestQueue(g), "0"
	for n := range 3 * (patience + suspicious) {
		q.AddWithOptions(Key{Name: "a"}, queue.AddOptions{Cause: queue.Cause{Trigger: "maps", NewVersion: last}})
		item, err := q.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		w := writes(n)
		if _, slow := d.observe(item, []write{w}); slow && first == 0 {
			first = n + 1
		}
		last = w.object.GetResourceVersion()
		item.Done()
	}
	return first
}

// Then the cached object is the write already, and the one before it is compared.
func TestAHotLoopIsFoundWhenTheWatchIsFasterThanTheAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		cached func(n int) bool
		value  func(n int) string
		slowed int
	}{
		"a new value each time":             {func(n int) bool { return n == 0 }, strconv.Itoa, 10},
		"one undone, unseen every 2nd time": {func(n int) bool { return n%2 == 0 }, func(int) string { return "ours" }, 15},
		"one that stays":                    {func(n int) bool { return n == 0 }, func(int) string { return "ours" }, 0},
	} {
		NewWithT(t).Expect(slowedDownAt(t, func(n int) write {
			w := write{object: written(strconv.Itoa(n+1), c.value(n))}
			if c.cached(n) {
				w.before = written(strconv.Itoa(n), c.value(n-1)+"'")
			}
			return w
		})).To(Equal(c.slowed), name)
	}
}

// A transport reports the answer, whose object is decoded when it must be.
func TestAHotLoopIsFoundInAnswers(t *testing.T) {
	g := NewWithT(t)
	const format = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"1","resourceVersion":"%d"},` +
		`"data":{"v":"%d"}}`
	for name, c := range map[string]struct {
		cached, unlabelled bool
		slowed             int
	}{
		"and a cached object": {true, false, 10}, "alone": {false, false, 10}, "of a scale": {true, true, 0},
	} {
		g.Expect(slowedDownAt(t, func(n int) write {
			object, err := answer.Read("application/json", fmt.Appendf(nil, format, n+1, n+1))
			g.Expect(err).NotTo(HaveOccurred())
			object.Unlabelled = c.unlabelled
			w := write{object: object}
			if c.cached || n == 0 {
				w.before = written(strconv.Itoa(n), strconv.Itoa(n))
			}
			return w
		})).To(Equal(c.slowed), name)
	}
}

// A recreated object has a new UID, and one without is of a fake.
func TestDeletionsAndObjectsWithoutAUIDAreNoHotLoop(t *testing.T) {
	g := NewWithT(t)
	g.Expect(slowedDownAt(t, func(n int) write {
		return write{before: written(strconv.Itoa(n), "theirs"), object: written(strconv.Itoa(n+1), "ours"), deleted: true}
	})).To(BeZero())
	g.Expect(slowedDownAt(t, func(n int) write {
		before, now := written(strconv.Itoa(n), "theirs"), written(strconv.Itoa(n+1), "ours")
		before.UID, now.UID = "", ""
		return write{before: before, object: now}
	})).To(BeZero())
}
