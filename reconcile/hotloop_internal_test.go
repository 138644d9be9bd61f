package reconcile

import (
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
