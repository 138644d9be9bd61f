package model_test

import (
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A judge is the monitor of a whole operator whose steps are not scheduled. It
// is asked from many goroutines. It also knows what a Pod was asked, and when a
// node last answered.
type judge struct {
	mu      sync.Mutex // guards the fields below
	monitor *monitor
	world   *whole
	pods    map[string]podAt       // by UID
	asked   map[string]bool        // Pods that the server was asked to evict, by UID
	downs   map[string][]time.Time // of each machine, because it was told to
	signs   map[string]sign        // of each node
	told    map[string]sign        // the epoch in which each node was first told to reboot, while it is Ready
}

type podAt struct {
	node, name string
	since      time.Time
	stays      bool
}

// A sign is what the operator has written on a node, and when that was
// different last. A sign is not judged while those who would have to act could
// not.
type sign struct {
	text  string
	since time.Time
}

func newJudge(w *whole) *judge {
	j := &judge{
		world: w, pods: map[string]podAt{}, asked: map[string]bool{}, downs: map[string][]time.Time{}, signs: map[string]sign{},
		told: map[string]sign{},
	}
	j.monitor = newMonitor(func(node string) int { return w.hulls[node].boots })
	return j
}

func (j *judge) commit(e apisim.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.Resource.Resource == "pods" {
		j.pod(e)
		return // I8 is judged by what was asked, not by the monitor.
	}
	j.monitor.commit(e)
}

func (j *judge) pod(e apisim.Event) {
	if e.New == nil {
		delete(j.pods, string(e.Old.GetUID()))
		return
	}
	p := decodedPod(e.New)
	at, known := j.pods[string(p.UID)]
	if !known {
		at.since = time.Now()
	}
	at.node, at.name, at.stays = p.Spec.NodeName, p.Name, drain.Stays(p)
	j.pods[string(p.UID)] = at
}

func (j *judge) evicted(uid string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked[uid] = true
}

// down holds I5, I8, I9, I12, and that no Pod is shut down that was never asked
// to leave, when a machine stops because it was told to.
func (j *judge) down(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m := j.monitor
	m.down(name)
	n, t := m.nodes[name], m.truth(name)
	if n == nil || n.inProgress == nil {
		return
	}
	for uid, p := range j.pods {
		if p.node == name && !p.stays && !j.asked[uid] && p.since.Before(t.accepted) {
			m.violated("I8", "%s: goes down with Pod %s, which was never asked to leave", name, p.name)
		}
		forced := n.inProgress.Policy == "force" && time.Since(t.accepted) >= time.Duration(n.inProgress.Seconds)*time.Second
		if p.node == name && !p.stays && !forced && p.since.Before(t.accepted) {
			m.violated("I8", "%s: goes down under policy %s with Pod %s", name, n.inProgress.Policy, p.name)
		}
	}
	now := time.Now()
	j.downs[name] = append(j.downs[name], now)
	count, in := m.groups[groupName].Spec.MaxReboots.Bounds()
	recent := 0
	for _, at := range j.downs[name] {
		if now.Sub(at) < in-permitTime-m.slow[name] && at.After(j.world.limited) {
			recent++
		}
	}
	if recent > count {
		m.violated("I12", "%s: rebooted %d times in %v, %d are allowed", name, recent, in, count)
	}
}

// power is a loss of power.
func (j *judge) power(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.monitor.nodes[name]; n != nil && n.inProgress != nil {
		j.monitor.truth(name).rebooted = true
	}
}

func (j *judge) reported(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.monitor.reported(name)
}

// tick holds I13: no slot is held for a node that has not answered for longer
// than its timeouts. Quiet is since when all controllers could work.
func (j *judge) tick(quiet time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	for name, n := range j.monitor.nodes {
		text := strconv.FormatBool(n.ready)
		for _, w := range []*written{n.now, n.inProgress} {
			if w != nil {
				text += " " + strconv.FormatInt(w.Epoch, 10) + " " + strconv.FormatInt(w.Beat, 10) + strconv.FormatBool(w.Asked != nil)
			}
		}
		last, known := j.signs[name]
		if !known || last.text != text {
			last = sign{text: text, since: now}
			j.signs[name] = last
		}
		since := last.since
		if since.Before(quiet) {
			since = quiet
		}
		if most := j.patience(name, n); most > 0 && now.Sub(since) > most && j.monitor.holds(name, n.uid) {
			j.monitor.violated("I13", "%s: holds a slot, and has not answered for %v: %s", name, now.Sub(since), text)
		}
		j.stays(name, n, quiet)
	}
}

// stays holds I13 for a machine that was told to reboot and is still Ready,
// because it refuses, or answers and does nothing.
func (j *judge) stays(name string, n *nodeView, quiet time.Time) {
	const slack = 2 * time.Minute
	p, now := n.inProgress, time.Now()
	if p == nil || !n.ready {
		delete(j.told, name)
		return
	}
	epoch := epochOf(n.uid, p)
	if p.Asked != nil && j.told[name].text != epoch {
		j.told[name] = sign{text: epoch, since: now}
	}
	first := j.told[name]
	if first.text != epoch || p.Policy == "wait" {
		return
	}
	if first.since.Before(quiet) {
		first.since = quiet
	}
	if stayed := now.Sub(first.since); stayed > time.Duration(p.Seconds)*time.Second+10*time.Minute+slack && j.monitor.holds(name, n.uid) {
		j.monitor.violated("I13", "%s: holds a slot, and has not rebooted for %v after it was told to", name, stayed)
	}
}

// patience is how long the operator may wait for the node as it is, 0 for as
// long as it likes.
func (j *judge) patience(_ string, n *nodeView) time.Duration {
	const slack = 2 * time.Minute
	switch p := n.inProgress; {
	case p != nil && p.Asked != nil && n.ready:
		return 10*time.Minute + slack
	case p != nil && p.Asked != nil:
		return 0 // It is away.
	case p != nil:
		return max(time.Minute, time.Duration(p.Seconds)*time.Second)*3/2 + slack
	case n.now != nil:
		return 3*time.Minute + slack
	default:
		return 0
	}
}

// broken returns the first violation.
func (j *judge) broken() *violation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.monitor.broken("")
}

// node returns a copy of what is known of a node, without contents if it is not
// there.
func (j *judge) node(name string) nodeView {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.monitor.nodes[name]; n != nil {
		return *n
	}
	return nodeView{}
}

// podsOn returns the names of the Pods on a node.
func (j *judge) podsOn(name string) map[string]podAt {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := maps.Clone(j.pods)
	maps.DeleteFunc(all, func(_ string, p podAt) bool { return p.node != name })
	return all
}

func (j *judge) settled() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.monitor.settled()
}

func (j *judge) violated(invariant, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.monitor.violated(invariant, format, args...)
}

func decodedPod(o *unstructured.Unstructured) *corev1.Pod {
	p := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p); err != nil {
		panic(err)
	}
	return p
}
