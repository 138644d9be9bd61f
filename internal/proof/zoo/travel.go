package zoo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classTravel = "time travel"

func travels() []Specimen {
	return []Specimen{
		Specimen{
			Name: "cleans up by name", Class: classTravel, World: successor, Found: "past", SDKFound: "past",
		}.reconciles(guarded(cleansName), guarded(removeOwn)),
		Specimen{
			Name: "starts what a stale list shows", Class: classTravel, World: datacenter, Found: "goal", SDKFound: "goal",
		}.reconciles(starts(false), starts(true)),
	}
}

// cleansName deletes the key by its name, without checking the key's UID. So it
// deletes the key of a recreated App if the cache still shows the deleted App.
func cleansName(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if _, ok := find(d.secrets(app.Name), app.Name+"-key"); !ok {
		return nil
	}
	return d.kube().CoreV1().Secrets(app.Namespace).Delete(ctx, app.Name+"-key", metav1.DeleteOptions{})
}

// successor returns a case in which an App is deleted. As soon as it is not
// found any more, another client recreates it under the same name.
func successor() *reconciletest.Case {
	c := withSteps(reconciletest.Delete("configmaps", namespace+"/a"))()
	missing := func(w *reconciletest.World) bool {
		apps, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
		return err == nil && len(apps) == 0
	}
	c.Actors = []reconciletest.Actor{{Name: "installer", Enabled: missing, Do: func(w *reconciletest.World) {
		if err := reconciletest.Create(newApp("a")).Do(context.Background(), w); err != nil {
			panic(err) // the App does not exist, so it can be created
		}
	}}}
	return c
}

// machines is the state outside the cluster. It records which machines are on,
// and how often each machine was started.
type machines struct {
	running map[types.UID]bool
	starts  map[types.UID]int
}

func (m *machines) start(uid types.UID) {
	if !m.running[uid] {
		m.running[uid] = true
		m.starts[uid]++
	}
}

// starts returns a program that keeps a machine on for each App. It must not
// start the machine of a deleted App again. If asks is true, it asks the server
// whether the App still exists before it starts a machine, because the cache
// may be stale.
func starts(asks bool) wiring {
	i := stateless(func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		m := d.outsideState().(*machines)
		if app.DeletionTimestamp != nil {
			delete(m.running, app.UID)
			return d.finalize(ctx, app, false)
		}
		if err := d.finalize(ctx, app, true); err != nil || m.running[app.UID] {
			return err
		}
		if asks {
			live, err := d.kube().CoreV1().ConfigMaps(app.Namespace).Get(ctx, app.Name, metav1.GetOptions{})
			if err != nil || live.UID != app.UID || live.DeletionTimestamp != nil {
				return err
			}
		}
		m.start(app.UID)
		return nil
	})
	i.deleting = true
	return i
}

func datacenter() *reconciletest.Case {
	c := comeAndGo()
	c.Outside = func() any { return &machines{running: map[types.UID]bool{}, starts: map[types.UID]int{}} }
	c.Goal = func(w *reconciletest.World) error {
		m := w.Outside().(*machines)
		for uid, n := range m.starts {
			if n > 1 {
				return fmt.Errorf("the machine of %s was started %d times", uid, n)
			}
		}
		apps, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
		if err == nil && len(m.running) != len(apps) {
			err = fmt.Errorf("%d machines are running for %d apps: want one for each", len(m.running), len(apps))
		}
		return err
	}
	return c
}
