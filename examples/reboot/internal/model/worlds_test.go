package model_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	worlds   = flag.Int("worlds", defaultWorlds, "how many random worlds of the whole operator are tried")
	oneWorld = flag.Uint64("world", 0, "try this one only")
)

const (
	tick    = 15 * time.Second
	wild    = 4 * time.Hour
	healing = 24 * time.Hour
)

// playWhole plays one world: wildly, and then healed until every request has
// its reboot. A bias, unless it is nil, changes the world before anything runs.
func playWhole(t *testing.T, seed uint64, bias func(*whole)) (broken *violation) {
	synctest.Test(t, func(t *testing.T) {
		w := newWhole(t, seed)
		defer w.stop()
		if bias != nil {
			bias(w)
		}
		begin, steps := time.Now(), 0
		for ; time.Since(begin) < wild && w.judge.broken() == nil; steps++ {
			w.pass()
			if w.often(0.02) {
				w.misfortune()
			}
			if w.often(0.02) {
				name := pick(w, w.names...)
				if w.judge.node(name).needed == nil {
					w.ask(name, fmt.Sprintf("request %d", steps))
				}
			}
		}
		w.heal()
		for begin = time.Now(); time.Since(begin) < healing && w.judge.broken() == nil && w.judge.settled() != ""; {
			w.pass()
			w.lookAfter()
		}
		if left := w.judge.settled(); left != "" && w.judge.broken() == nil {
			w.judge.violated("L1", "%s", left)
		}
		broken = w.judge.broken()
	})
	return broken
}

// pass lets time pass, in which machines boot, kubelets report, and processes
// are started again.
func (w *whole) pass() {
	<-time.After(tick)
	synctest.Wait()
	for _, name := range w.names {
		w.boot(name)
		w.schedule(name)
	}
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(w.procs)) {
		p, node := w.procs[name], strings.TrimPrefix(name, "agent-")
		switch {
		case p.cancel == nil && now.After(p.until) && w.mayRun(node):
			w.run(p)
		case p.cancel != nil && node != name && w.traits[node].looping && w.often(0.05):
			w.kill(name, time.Minute)
		}
	}
	if !w.controllersWork() {
		w.quiet = now
	}
	w.judge.tick(w.quiet)
}

// controllersWork reports whether both controllers can work.
func (w *whole) controllersWork() bool {
	for _, name := range []string{"controller-1", "controller-2"} {
		if w.procs[name].cancel == nil || time.Now().Before(w.proxies[name].until.Add(10*time.Minute)) {
			return false
		}
	}
	return true
}

func (w *whole) mayRun(node string) bool {
	h := w.hulls[node]
	return h == nil || !h.isOff() && !w.traits[node].noAgent
}

// boot is about a machine that is off: its agent has died with it.
func (w *whole) boot(name string) {
	w.mu.Lock()
	at, off := w.booting[name]
	w.mu.Unlock()
	switch now := time.Now(); {
	case !off:
		return
	case at.IsZero():
		w.kill("agent-"+name, 0)
		if w.judge.node(name).ready {
			w.report(name, corev1.ConditionUnknown)
		}
		at = now.Add(time.Duration(w.rng.IntN(300)) * time.Second)
	case now.After(at):
		w.hulls[name].powerOn()
		w.report(name, corev1.ConditionTrue)
		w.mu.Lock()
		delete(w.booting, name)
		w.mu.Unlock()
		return
	}
	w.mu.Lock()
	w.booting[name] = at
	w.mu.Unlock()
}

// schedule puts Pods on a node that is not cordoned, and those that tolerate a
// cordon on any.
func (w *whole) schedule(name string) {
	n, pods := w.judge.node(name), w.judge.podsOn(name)
	if w.hulls[name].isOff() {
		return
	}
	tolerant := slices.ContainsFunc(slices.Collect(maps.Values(pods)), func(p podAt) bool { return strings.HasPrefix(p.name, "tolerant") })
	switch {
	case w.traits[name].tolerant && !tolerant:
		w.makePod(name, "tolerant", corev1.Toleration{Operator: corev1.TolerationOpExists})
	case !n.cordoned && len(pods) < 3 && w.often(0.2):
		w.makePod(name, pick(w, "free", "slow", "guarded", "new"))
	}
	for uid, p := range pods { // of a kubelet that takes its time
		if strings.HasPrefix(p.name, "slow") && w.often(0.1) {
			w.release(p.name, uid)
		}
	}
}

func (w *whole) makePod(node, app string, tolerations ...corev1.Toleration) {
	w.bound++
	grace := int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", app, w.bound), Namespace: "default", Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "i"}}, Tolerations: tolerations,
		},
	}
	if app == "slow" {
		pod.Finalizers = []string{"example.com/slow"}
	}
	made, err := w.core.CoreV1().Pods("default").Create(w.ctx, pod, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	made.Status.Phase = corev1.PodRunning
	made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := w.core.CoreV1().Pods("default").UpdateStatus(w.ctx, made, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) &&
		!apierrors.IsNotFound(err) { // It may have been evicted meanwhile.
		panic(err)
	}
}

// release lets a terminating Pod end.
func (w *whole) release(name, uid string) {
	pods := w.core.CoreV1().Pods("default")
	p, err := pods.Get(w.ctx, name, metav1.GetOptions{})
	if err != nil || string(p.UID) != uid || p.DeletionTimestamp == nil {
		return
	}
	p.Finalizers = nil
	if _, err := pods.Update(w.ctx, p, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		panic(err)
	}
}

// budget makes the budget of an app, or changes it. One that is not processed
// has no status.
func (w *whole) budget(app string, allowed int32, processed bool) {
	budgets := w.core.PolicyV1().PodDisruptionBudgets("default")
	b, err := budgets.Get(w.ctx, app, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		b, err = budgets.Create(w.ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: app},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		panic(err)
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: 1, DesiredHealthy: 1}
	if processed {
		b.Status.ObservedGeneration = b.Generation
	}
	if _, err := budgets.UpdateStatus(w.ctx, b, metav1.UpdateOptions{}); err != nil {
		panic(err)
	}
}

// A misfortune is one of the things that happen to clusters.
type misfortune int

const (
	refuses misfortune = iota
	inhibits
	ignores
	hangs
	clockSet
	agentDies
	controllerDies
	controllersDie
	proxyLies
	guardedBudget
	newBudget
	powerFails
	cordoned
)

// allMisfortunes returns the misfortunes of a usual world. An agent dies twice
// as often as anything else happens.
func allMisfortunes() []misfortune {
	return []misfortune{
		refuses, inhibits, ignores, hangs, clockSet, agentDies, agentDies, controllerDies, controllersDie, proxyLies,
		guardedBudget, newBudget, powerFails, cordoned,
	}
}

// misfortune lets one misfortune happen, to one node or to the cluster.
func (w *whole) misfortune() {
	name := pick(w, w.names...)
	h, now := w.hulls[name], time.Now()
	switch pick(w, w.misfortunes...) {
	case refuses:
		h.change(func(h *hull) { h.refuses = w.often(0.5) })
	case inhibits:
		h.change(func(h *hull) { h.inhibited = pick(w, "", "", "a backup blocks a shutdown") })
	case ignores:
		h.change(func(h *hull) { h.deaf = w.often(0.4) })
	case hangs:
		h.change(func(h *hull) { h.mute = w.often(0.4) })
	case clockSet:
		w.clocks[name].set(pick(w, 0, 0, 2*time.Hour, -3*time.Hour, 50*time.Second)) // NTP
	case agentDies:
		w.kill("agent-"+name, pick(w, 0, 2*time.Minute, time.Hour))
	case controllerDies:
		w.kill(pick(w, "controller-1", "controller-2"), pick(w, time.Minute, time.Hour))
	case controllersDie:
		for _, c := range []string{"controller-1", "controller-2"} {
			w.kill(c, pick(w, 10*time.Minute, 2*time.Hour))
		}
	case proxyLies:
		w.proxies[pick(w, "agent-"+name, "controller-1")].lie(now.Add(pick(w, time.Minute, 30*time.Minute)))
	case guardedBudget:
		w.budget("guarded", pick(w, int32(0), 1000), true)
	case newBudget:
		w.budget("new", 1000, w.often(0.5))
	case powerFails:
		h.goDown(false)
	case cordoned:
		if n := w.judge.node(name); n.inProgress == nil && n.now == nil {
			w.patchNode(name, map[string]any{"spec": map[string]any{"unschedulable": w.often(0.3)}})
		}
	}
}

// heal lets every request have its reboot.
func (w *whole) heal() {
	w.budget("guarded", 1000, true)
	w.budget("new", 1000, true)
	for _, name := range w.names {
		w.hulls[name].change(func(h *hull) { h.refuses, h.deaf, h.mute, h.blind, h.inhibited = false, false, false, false, "" })
		w.clocks[name].set(0)
		*w.traits[name] = traits{}
	}
	for name, p := range w.procs {
		p.until = time.Time{}
		w.proxies[name].lie(time.Time{})
		w.proxies[name].pass()
	}
	w.limited = time.Now()
	w.patchGroup(`{"spec":{"windows":null,"maxReboots":{"count":100}}}`)
}

// lookAfter is a person who requests a reboot again, with a new request, if it
// is not known whether a machine has rebooted.
func (w *whole) lookAfter() {
	for _, name := range w.names {
		if n := w.judge.node(name); n.needed != nil && n.last != nil && n.last.Result == "unproven" && *n.needed == n.last.Request {
			w.ask(name, fmt.Sprintf("after epoch %d", n.last.Epoch))
		}
	}
}

func TestTheWholeOperatorInRandomWorlds(t *testing.T) {
	seeds := make([]uint64, 0, *worlds)
	for seed := range *worlds {
		seeds = append(seeds, uint64(seed+1))
	}
	if *oneWorld != 0 {
		seeds = []uint64{*oneWorld}
	}
	for _, seed := range seeds {
		if v := playWhole(t, seed, nil); v != nil {
			t.Errorf("world %d: %s: %s\nonce more: go test ./examples/reboot/internal/model -run TestTheWhole -world %d", seed, v.invariant, v.what, seed)
		}
	}
}
