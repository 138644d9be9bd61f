package model_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/apisim"
)

// work adds an action that always happens in the end; chaos one that may
// happen.
func (w *world) work(name string, enabled func() bool, do func()) {
	w.sched.Add(&apisim.Extra{Name: name, Enabled: enabled, Do: do})
}

func (w *world) may(allowed bool, name string, enabled func() bool, do func()) {
	if allowed {
		w.sched.Add(&apisim.Extra{Name: name, Enabled: enabled, Do: do, Chaos: true})
	}
}

// chaos adds the actions of machines, kubelets and administrators.
func (w *world) chaos(ctx context.Context) {
	for _, name := range w.names() {
		w.hardware(ctx, name)
		w.scheduler(ctx, name)
		w.admin(ctx, name)
	}
	w.may(w.pods, "the budget refuses or allows", nil, func() { w.budget(ctx, int(w.sim.Version())%2*1000) })
	w.may(w.windows, "admin sets a window, or none", nil, func() {
		closes := time.Now().UTC().Add(time.Minute)
		if len(w.monitor.groups[groupName].Spec.Windows) > 0 || closes.Hour() > 0 || closes.Minute() == 0 {
			w.patchGroup(ctx, `{"spec":{"windows":null}}`)
			return
		}
		w.patchGroup(ctx, fmt.Sprintf(`{"spec":{"windows":[{"start":"00:00","end":%q}]}}`, closes.Format("15:04")))
	})
	w.may(w.limits, "admin changes max", nil, func() {
		limit := 1 + int(w.sim.Version())%3
		w.patchGroup(ctx, fmt.Sprintf(`{"spec":{"maxUnavailable":%d}}`, limit))
	})
	w.may(w.gate, "the gate opens or closes", nil, func() { w.setGate(!w.monitor.closed) })
	w.rivals(ctx)
	w.may(w.pause, "admin pauses or resumes the group", nil, func() {
		w.patchGroup(ctx, fmt.Sprintf(`{"spec":{"paused":%t}}`, !w.monitor.groups[groupName].Spec.Paused))
	})
}

// rivals moves nodes between groups, and deletes one of them.
func (w *world) rivals(ctx context.Context) {
	if !w.pools {
		return
	}
	for _, name := range w.names() {
		w.may(true, "admin moves "+name, func() bool { return w.monitor.nodes[name] != nil }, func() {
			w.move(ctx, name, []string{groupName, rivalName, both}[int(w.sim.Version())%3])
		})
	}
	w.may(true, "admin deletes "+rivalName, func() bool {
		g := w.monitor.groups[rivalName]
		return g != nil && g.DeletionTimestamp == nil
	}, func() {
		if err := w.groups.Delete(ctx, rivalName, metav1.DeleteOptions{}); err != nil {
			panic(err)
		}
	})
	w.work("admin creates "+rivalName, func() bool { return w.monitor.groups[rivalName] == nil }, func() { w.createGroup(ctx, rivalName) })
}

func (w *world) patchGroup(ctx context.Context, change string) {
	_, err := w.groups.Patch(ctx, groupName, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil {
		panic(err)
	}
}

func (w *world) hardware(ctx context.Context, name string) {
	b := w.machines[name]
	exists := func() bool { return w.monitor.nodes[name] != nil }
	w.work("power on "+name, b.Off, func() {
		b.PowerOn()
		b.boots++
		b.bootedAt = time.Now()
	})
	w.work("kubelet "+name+" reports Ready", func() bool {
		id, err := b.BootID(ctx)
		return exists() && err == nil && (id != b.reported || !b.ready) && time.Since(b.bootedAt) >= w.kubelet
	}, func() { w.report(ctx, name) })
	w.work("kubelet "+name+" is late, not Ready", func() bool {
		return exists() && !b.Off() && b.reported != w.bootOf(ctx, name) && b.ready && time.Since(b.bootedAt) >= w.kubelet
	}, func() { w.status(ctx, name, corev1.ConditionFalse, w.bootOf(ctx, name)) })
	w.may(true, name+" counts as Unknown", func() bool { return exists() && b.Off() && b.ready },
		func() { w.status(ctx, name, corev1.ConditionUnknown, "") })
	w.may(w.flap, name+" is not Ready for once", func() bool { return exists() && !b.Off() && b.ready },
		func() { w.status(ctx, name, corev1.ConditionFalse, "") })
	w.may(w.refuse, name+" refuses or obeys", nil, func() {
		if w.sim.Version()%2 == 0 {
			b.Refuse(errors.New("the init system says no"))
		} else {
			b.Refuse(nil)
		}
	})
}

func (w *world) bootOf(ctx context.Context, name string) string {
	id, _ := w.machines[name].BootID(ctx) // Empty while it is off.
	return id
}

func (w *world) admin(ctx context.Context, name string) {
	node := func() *nodeView {
		if n := w.monitor.nodes[name]; n != nil {
			return n
		}
		return &nodeView{}
	}
	w.work("admin asks for "+name, func() bool {
		return node().exists && node().needed == nil && w.asked < w.requests
	}, func() {
		w.asked++
		w.annotate(ctx, name, "reboot-needed", "r")
	})
	w.work("admin looks after "+name+", and asks again", func() bool {
		n := node()
		return n.needed != nil && n.last != nil && n.last.Result == "unproven" && *n.needed == n.last.Request
	}, func() { w.annotate(ctx, name, "reboot-needed", fmt.Sprintf("r%d", w.monitor.nodes[name].last.Epoch)) })
	w.may(w.withdraw, "admin withdraws "+name, func() bool { return node().needed != nil },
		func() { w.annotate(ctx, name, "reboot-needed", nil) })
	w.may(w.pause, "admin pauses or resumes "+name, func() bool { return node().exists }, func() {
		if node().paused {
			w.annotate(ctx, name, "reboot-paused", nil)
		} else {
			w.annotate(ctx, name, "reboot-paused", "true")
		}
	})
	w.may(w.cordon, "admin cordons "+name, func() bool { return node().exists && !node().cordoned && node().inProgress == nil },
		func() { w.patchNode(ctx, name, map[string]any{"spec": map[string]any{"unschedulable": true}}) })
	w.may(w.cordon, "admin uncordons "+name, func() bool { return node().cordoned && node().inProgress == nil },
		func() { w.patchNode(ctx, name, map[string]any{"spec": map[string]any{"unschedulable": nil}}) })
	w.may(w.abort, "admin calls off "+name, func() bool { return node().inProgress != nil && !w.machines[name].Off() && w.fresh(name) },
		func() { w.annotate(ctx, name, "reboot-in-progress", nil) })
	w.may(w.replace, "admin replaces "+name, func() bool { return node().exists && w.asked < w.requests }, func() {
		w.asked++
		if err := w.core.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			panic(err)
		}
		b := w.machines[name]
		b.reported, b.ready = "", false
		w.createNode(ctx, name)
	})
}

// fresh reports whether the machine has not rebooted yet for the reboot in
// progress.
func (w *world) fresh(name string) bool {
	n, t := w.monitor.nodes[name], w.monitor.truth(name)
	return t.acceptedAt[epochOf(n.uid, n.inProgress)] == w.machines[name].boots
}

// calm ends the actions that only chaos may cause, so that every request can
// complete.
func (w *world) calm(ctx context.Context) {
	w.budget(ctx, 1000)
	w.patchGroup(ctx, `{"spec":{"windows":null}}`)
	w.setGate(false)
	for _, name := range w.names() {
		if n := w.monitor.nodes[name]; n != nil && n.labels[pool] == both {
			w.move(ctx, name, groupName)
		}
		w.machines[name].Refuse(nil)
		if n := w.monitor.nodes[name]; n != nil && n.paused {
			w.annotate(ctx, name, "reboot-paused", nil)
		}
	}
	if w.monitor.groups[groupName].Spec.Paused {
		w.patchGroup(ctx, `{"spec":{"paused":false}}`)
	}
}
