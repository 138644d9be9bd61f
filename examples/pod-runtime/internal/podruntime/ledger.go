package podruntime

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Keys of the ConfigMap's data.
const (
	TotalKey  = "total"       // for people: 3h25m10s
	LedgerKey = "ledger.json" // a [Ledger]
)

// A Ledger says how long the Pods of a namespace have run. Durations are in
// seconds, moments in Unix seconds.
type Ledger struct {
	// Write counts the writes of the ledger.
	Write int64 `json:"write"`
	// At is up to when it counts.
	At int64 `json:"at"`
	// Total of all Pods that ever ran; it never goes down.
	Total int64 `json:"totalSeconds"`
	// Closed is the sum of the deleted ones.
	Closed int64 `json:"closedSeconds"`
	// Estimated of these vanished while the controller was down, and may have run for up to
	// Unseen longer, all together.
	Estimated int   `json:"estimatedPods"`
	Unseen    int64 `json:"unseenSeconds"`
	// Pods that exist and have started, by UID.
	Pods map[types.UID]Stay `json:"pods"`
}

// A Stay is a Pod that exists.
type Stay struct {
	Name  string `json:"name"`
	Start int64  `json:"start"`
	// End is zero while it runs.
	End int64 `json:"end,omitempty"`
}

// until returns for how long it has run at a moment.
func (s Stay) until(at int64) int64 {
	if s.End != 0 {
		at = s.End
	}
	return max(0, at-s.Start)
}

// parse reads a ledger from the data of its ConfigMap.
func parse(data map[string]string) (Ledger, error) {
	var l Ledger
	if err := json.Unmarshal([]byte(data[LedgerKey]), &l); err != nil {
		return Ledger{}, fmt.Errorf("reading %s: %w", LedgerKey, err)
	}
	return l, nil
}

// data returns the data of the ConfigMap.
func (l Ledger) data() (map[string]string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", LedgerKey, err)
	}
	return map[string]string{LedgerKey: string(text), TotalKey: (time.Duration(l.Total) * time.Second).String()}, nil
}

// running reports whether the total grows.
func (l Ledger) running() bool {
	for _, stay := range l.Pods {
		if stay.End == 0 {
			return true
		}
	}
	return false
}

// advance returns the ledger of now, from that of the past and the Pods that
// exist. A deleted Pod without a known end has run until now, unless
// the ledger is older than tolerance: then until the ledger's moment.
func (l Ledger) advance(pods iter.Seq[*corev1.Pod], now time.Time, tolerance time.Duration) Ledger {
	next := l
	next.Write++
	next.At = max(l.At, now.Unix()) // clocks may go back, time does not
	next.Pods = map[types.UID]Stay{}
	for pod := range pods {
		stay, known := l.Pods[pod.UID]
		if !known {
			if pod.Status.StartTime == nil {
				continue // it does not run yet
			}
			stay = Stay{Name: pod.Name, Start: pod.Status.StartTime.Unix()}
		}
		if stay.End == 0 {
			stay.End = endOf(pod, next.At)
		}
		next.Pods[pod.UID] = stay
	}
	for uid, stay := range l.Pods {
		if _, exists := next.Pods[uid]; !exists {
			next.close(stay, l.At, tolerance)
		}
	}
	sum := next.Closed
	for stay := range maps.Values(next.Pods) {
		sum += stay.until(next.At)
	}
	next.Total = max(l.Total, sum) // an end may be learned late
	return next
}

// close adds a deleted Pod, which was last seen at a moment.
func (l *Ledger) close(stay Stay, seen int64, tolerance time.Duration) {
	if unseen := l.At - seen; stay.End == 0 && unseen > int64(tolerance/time.Second) {
		l.Estimated++
		l.Unseen += unseen
		stay.End = max(seen, stay.Start)
	}
	l.Closed += stay.until(l.At)
}

// endOf returns when a Pod ended: when its last container did, or the last we
// hear of its readiness, or now. Zero means that it runs.
func endOf(pod *corev1.Pod, now int64) int64 {
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		return 0
	}
	end := int64(0)
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			end = max(end, c.State.Terminated.FinishedAt.Unix())
		}
	}
	if end > 0 {
		return end
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Unix()
		}
	}
	return now
}
