package podruntime_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/pod-runtime/internal/podruntime"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 5 * time.Second

// The lives of the Pods that end: they began when the world did, and their ends
// are set.
var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A fault at every call and every event, and the same end: nothing is lost and
// nothing counted twice.
func TestItSurvivesEveryFault(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}
	status := func(name, status string) reconciletest.Step {
		return reconciletest.Patch("pods/status", "d/"+name, `{"status":`+status+`}`)
	}
	reconciletest.Explore(t, &reconciletest.Case{
		Roles:   []string{"../../deploy/rbac.yaml"},
		Outside: func() any { return &witness{entered: map[string]bool{}, ended: map[string]bool{}} },
		Run: func(env *reconciletest.Env) error {
			c, _, err := podruntime.New(stage.Client(env.Config()), &podruntime.Options{Period: 24 * time.Hour})
			if err != nil {
				return err
			}
			return c.Run(env.Context())
		},
		Workload: []reconciletest.Step{
			reconciletest.Create(pod("a")),
			status("a", started(began)),
			reconciletest.Create(pod("b")),
			status("b", started(began)),
			status("a", succeeded(began.Add(100*time.Second))),
			reconciletest.Delete("pods", "d/a"),
			status("b", succeeded(began.Add(1000*time.Second))),
			reconciletest.Create(pod("c")),
			status("c", started(began)),
			reconciletest.Delete("pods", "d/b"),
		},
		Always: func(w *reconciletest.World) error {
			l, err := ledgerIn(w)
			if err != nil {
				return nil // another client has edited it
			}
			return w.Outside().(*witness).saw(l)
		},
		Goal: func(w *reconciletest.World) error {
			l, err := ledgerIn(w)
			if err != nil {
				return err
			}
			return w.Outside().(*witness).judge(l)
		},
		Ignore: []string{"data"}, // it says when
	}, &reconciletest.Options{Budget: exploration})
}

// A witness sees every ledger that is written.
type witness struct {
	highest        int64
	entered, ended map[string]bool
}

func (w *witness) saw(l podruntime.Ledger) error {
	if l.Total < w.highest {
		return fmt.Errorf("the total went down from %d to %d", w.highest, l.Total)
	}
	w.highest = l.Total
	for _, stay := range l.Pods {
		w.entered[stay.Name] = true
		w.ended[stay.Name] = w.ended[stay.Name] || stay.End != 0
	}
	return nil
}

// judge checks the closed ones: each that was entered counts once, and exactly
// if its end was seen. Otherwise it may have run until now.
func (w *witness) judge(l podruntime.Ledger) error {
	least, most := int64(0), int64(0)
	for name, ran := range map[string]int64{"a": 100, "b": 1000} {
		switch {
		case w.ended[name]:
			least, most = least+ran, most+ran
		case w.entered[name]:
			least, most = least+ran, most+int64(time.Since(began)/time.Second)
		}
	}
	if l.Closed < least || l.Closed > most || len(l.Pods) != 1 || l.Estimated != 0 {
		return fmt.Errorf("the ledger is %+v, want %d to %d s closed and one Pod", l, least, most)
	}
	return nil
}

// ledgerIn returns the ledger that there is, or an empty one.
func ledgerIn(w *reconciletest.World) (podruntime.Ledger, error) {
	all, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
	if err != nil || len(all) == 0 {
		return podruntime.Ledger{Total: w.Outside().(*witness).highest}, err
	}
	return podruntime.Parse(all[0].Data)
}
