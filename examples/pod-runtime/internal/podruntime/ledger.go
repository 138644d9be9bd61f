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

// These are the keys of the ConfigMap's data.
const (
	TotalKey  = "total"       // for people: 3h25m10s
	LedgerKey = "ledger.json" // a [Ledger]
)

// A Ledger records how long the Pods of a namespace have run. Durations are in
// seconds, and moments in Unix seconds.
type Ledger struct {
	// Write counts the writes of the ledger.
	Write int64 `json:"write"`
	// At is the moment of the last update. The ledger contains the runtime up
	// to then.
	At int64 `json:"at"`
	// Total is the runtime of all Pods that ever ran. It never decreases.
	Total int64 `json:"totalSeconds"`
	// Closed is the runtime of the deleted Pods.
	Closed int64 `json:"closedSeconds"`
	// Estimated is the number of Pods that were running at an update of the
	// ledger and no longer existed at the next one, if that came more than two
	// periods later because the controller was not running. Their runtime is
	// counted only up to the earlier update. Unseen is the largest number of
	// seconds that may be missing from Total because of that.
	Estimated int   `json:"estimatedPods"`
	Unseen    int64 `json:"unseenSeconds"`
	// Pods are the Pods that exist and have started, by UID.
	Pods map[types.UID]Stay `json:"pods"`
}

// A Stay records when a Pod that still exists has started, and when it has
// ended.
type Stay struct {
	Name  string `json:"name"`
	Start int64  `json:"start"`
	// End is zero while the Pod runs.
	End int64 `json:"end,omitempty"`
}

// runtimeAt returns for how many seconds the Pod had run at moment, or for how
// many seconds it ran altogether if it has ended.
func (s Stay) runtimeAt(moment int64) int64 {
	if s.End != 0 {
		moment = s.End
	}
	return max(0, moment-s.Start)
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

// running reports whether a Pod of the ledger is running. The total grows as
// long as one is.
func (l Ledger) running() bool {
	for _, stay := range l.Pods {
		if stay.End == 0 {
			return true
		}
	}
	return false
}

// advance returns the ledger for the time now, computed from l and the Pods
// that exist. A deleted Pod whose end is not known counts as having run until
// now. If l is older than tolerance, such a Pod counts only until the time of
// l.
func (l Ledger) advance(pods iter.Seq[*corev1.Pod], now time.Time, tolerance time.Duration) Ledger {
	advanced := l
	advanced.Write++
	advanced.At = max(l.At, now.Unix()) // the clock may have been set back
	advanced.Pods = map[types.UID]Stay{}
	for pod := range pods {
		stay, known := l.Pods[pod.UID]
		if !known {
			if pod.Status.StartTime == nil {
				continue // the Pod does not run yet
			}
			stay = Stay{Name: pod.Name, Start: pod.Status.StartTime.Unix()}
		}
		if stay.End == 0 {
			stay.End = endOf(pod, advanced.At)
		}
		advanced.Pods[pod.UID] = stay
	}
	for uid, stay := range l.Pods {
		if _, exists := advanced.Pods[uid]; !exists {
			advanced.close(stay, l.At, tolerance)
		}
	}
	sum := advanced.Closed
	for stay := range maps.Values(advanced.Pods) {
		sum += stay.runtimeAt(advanced.At)
	}
	advanced.Total = max(l.Total, sum) // the end of a Pod may become known late
	return advanced
}

// close adds the runtime of a deleted Pod to Closed. seen is the moment at
// which the Pod was last seen. If its end is not known, and it was last seen
// longer ago than tolerance, its runtime counts only until seen, and is noted
// as an estimate.
func (l *Ledger) close(stay Stay, seen int64, tolerance time.Duration) {
	if unseen := l.At - seen; stay.End == 0 && unseen > int64(tolerance/time.Second) {
		l.Estimated++
		l.Unseen += unseen
		stay.End = max(seen, stay.Start)
	}
	l.Closed += stay.runtimeAt(l.At)
}

// endOf returns the moment at which a Pod ended, or zero if it has not ended.
// It is the end of its last container, otherwise the last change of its
// readiness, and otherwise moment.
func endOf(pod *corev1.Pod, moment int64) int64 {
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
	return moment
}
