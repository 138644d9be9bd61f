package podruntime_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/pod-runtime/internal/podruntime"
)

const tolerance = 10 * time.Second

func at(second int64) time.Time { return time.Unix(second, 0) }

// pod is one that started then, and has ended unless end is zero.
func pod(uid string, start, end int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: uid, UID: types.UID(uid)}}
	if start != 0 {
		p.Status.StartTime = new(metav1.Unix(start, 0))
	}
	if end != 0 {
		p.Status.Phase = corev1.PodSucceeded
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Unix(end, 0)},
		}}}
	}
	return p
}

func TestALedgerSettles(t *testing.T) {
	failed := pod("a", 100, 0)
	failed.Status.Phase = corev1.PodFailed
	unready := failed.DeepCopy()
	unready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, LastTransitionTime: metav1.Unix(104, 0)}}
	running := podruntime.Ledger{At: 105, Total: 5, Pods: map[types.UID]podruntime.Stay{"a": {Name: "a", Start: 100}}}
	ended := podruntime.Ledger{At: 105, Total: 4, Pods: map[types.UID]podruntime.Stay{"a": {Name: "a", Start: 100, End: 104}}}
	type outcome struct{ Total, Closed, Unseen int64 }
	for name, c := range map[string]struct {
		from podruntime.Ledger
		pods []*corev1.Pod
		now  int64
		want outcome
	}{
		"a Pod that runs":              {podruntime.Ledger{}, []*corev1.Pod{pod("a", 100, 0)}, 110, outcome{10, 0, 0}},
		"one that does not run yet":    {podruntime.Ledger{}, []*corev1.Pod{pod("a", 0, 0)}, 110, outcome{}},
		"one that had ended before":    {podruntime.Ledger{}, []*corev1.Pod{pod("a", 100, 107)}, 110, outcome{7, 0, 0}},
		"one that goes on":             {running, []*corev1.Pod{pod("a", 100, 0)}, 110, outcome{10, 0, 0}},
		"one that has ended":           {running, []*corev1.Pod{pod("a", 100, 108)}, 110, outcome{8, 0, 0}},
		"its end is learned late":      {running, []*corev1.Pod{pod("a", 100, 103)}, 110, outcome{5, 0, 0}},
		"an end is not changed":        {ended, []*corev1.Pod{pod("a", 100, 108)}, 110, outcome{4, 0, 0}},
		"failed at an unknown time":    {running, []*corev1.Pod{failed}, 110, outcome{10, 0, 0}},
		"failed, last heard of at 104": {podruntime.Ledger{}, []*corev1.Pod{unready}, 110, outcome{4, 0, 0}},
		"gone a moment ago":            {running, nil, 115, outcome{15, 15, 0}},
		"deleted while it was down":    {running, nil, 116, outcome{5, 5, 11}},
		"gone after its end, any time": {ended, nil, 9999, outcome{4, 4, 0}},
		"deleted, and recreated":       {running, []*corev1.Pod{pod("b", 108, 0)}, 110, outcome{12, 10, 0}},
		"the clock goes back":          {running, []*corev1.Pod{pod("a", 100, 0)}, 90, outcome{5, 0, 0}},
		"a start in the future":        {podruntime.Ledger{}, []*corev1.Pod{pod("a", 200, 0)}, 110, outcome{}},
		"nothing":                      {podruntime.Ledger{}, nil, 110, outcome{}},
		"nothing new":                  {podruntime.Ledger{At: 5, Total: 7, Closed: 7}, nil, 110, outcome{7, 7, 0}},
		"gone before it started to count": {
			podruntime.Ledger{At: 105, Pods: map[types.UID]podruntime.Stay{"a": {Start: 110}}}, nil, 200, outcome{0, 0, 95},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := podruntime.Settle(c.from, slices.Values(c.pods), at(c.now), tolerance)
			NewWithT(t).Expect(outcome{got.Total, got.Closed, got.Unseen}).To(Equal(c.want))
			NewWithT(t).Expect(got.At).To(BeNumerically(">=", c.from.At))
			NewWithT(t).Expect(got.Write).To(Equal(c.from.Write + 1))
		})
	}
}

// Random lives of Pods, random looks, some long apart: the total never goes
// down, and differs from the truth by no more than the ledger says.
func TestALedgerIsNeverFarFromTheTruth(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g, random := NewWithT(t), rand.New(rand.NewPCG(seed, 0))
			type life struct{ start, end, gone int64 }
			var lives []life
			for range 1 + random.IntN(20) {
				start := 1 + random.Int64N(500)
				end := start + random.Int64N(100)
				lives = append(lives, life{start, end, end + random.Int64N(50)})
			}
			var l podruntime.Ledger
			entered, late := map[int]bool{}, int64(0)
			for now := int64(1); now < 1000; {
				var pods []*corev1.Pod
				for i, life := range lives {
					if life.start > now || life.gone <= now {
						continue
					}
					entered[i] = true
					end := life.end
					if end > now {
						end = 0
					}
					pods = append(pods, pod(fmt.Sprint(i), life.start, end))
				}
				next := podruntime.Settle(l, slices.Values(pods), at(now), tolerance)
				g.Expect(next.Total).To(BeNumerically(">=", l.Total))
				if len(next.Pods) < len(l.Pods) || next.Closed > l.Closed {
					late += (now - l.At) * int64(len(l.Pods)) // the largest error of such a late look
				}
				l = next
				now += 1 + random.Int64N(2*int64(tolerance/time.Second))
			}
			truth := int64(0)
			for i := range entered {
				truth += lives[i].end - lives[i].start
			}
			g.Expect(l.Pods).To(BeEmpty())
			g.Expect(l.Total).To(BeNumerically("~", truth, late), "truth %d", truth)
		})
	}
}
