package model_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

type fleet struct {
	names    []string
	machines map[string]*machine.Simulated
	off      map[string]bool
	reboots  map[string]int
}

func newFleet() any {
	f := &fleet{names: []string{"n1", "n2", "n3"}, machines: map[string]*machine.Simulated{}, off: map[string]bool{}, reboots: map[string]int{}}
	for _, n := range f.names {
		f.machines[n] = machine.NewSimulated(n, func(string) { f.off[n] = true; f.reboots[n]++ })
	}
	return f
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{BootID: name + "-boot-1"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func TestExploreReboot(t *testing.T) {
	gv := api.GroupVersion()
	need := func(n string) reconciletest.Step {
		return reconciletest.Patch("nodes", n, `{"metadata":{"annotations":{"`+protocol.Needed+`":"kernel"}}}`)
	}
	r := reconciletest.Explore(t, &reconciletest.Case{
		Resources: []reconciletest.Resource{{Group: gv.Group, Version: gv.Version, Resource: "rebootgroups", Kind: "RebootGroup", Status: true}},
		Objects: []runtime.Object{
			node("n1"), node("n2"), node("n3"),
			&api.RebootGroup{
				TypeMeta:   metav1.TypeMeta{APIVersion: gv.String(), Kind: "RebootGroup"},
				ObjectMeta: metav1.ObjectMeta{Name: api.DefaultName}, Spec: api.RebootGroupSpec{MaxUnavailable: intstr.FromInt32(1)},
			},
		},
		Outside: newFleet,
		Run: func(env *reconciletest.Env) error {
			f := env.Outside().(*fleet)
			groups, err := api.NewForConfig(env.Config())
			if err != nil {
				return err
			}
			c, err := controller.New(env.Client().CoreV1().Nodes(), groups, nil)
			if err != nil {
				return err
			}
			ended := make(chan error)
			ctx := env.Context()
			go func() { ended <- c.Run(ctx) }()
			for _, n := range f.names {
				a, err := agent.New(env.Client().CoreV1().Nodes(), &agent.Options{Node: n, Machine: f.machines[n]})
				if err != nil {
					return err
				}
				go func() { ended <- a.Run(ctx) }()
			}
			var all []error
			for range len(f.names) + 1 {
				all = append(all, <-ended)
			}
			return errors.Join(all...)
		},
		Actors: []reconciletest.Actor{{
			Name: "power on and kubelet",
			Enabled: func(w *reconciletest.World) bool {
				for _, off := range w.Outside().(*fleet).off {
					if off {
						return true
					}
				}
				return false
			},
			Do: func(w *reconciletest.World) {
				f := w.Outside().(*fleet)
				for _, n := range f.names {
					if f.off[n] {
						f.off[n] = false
						boot := f.machines[n].PowerOn()
						_, _ = w.Client().CoreV1().Nodes().Patch(context.Background(), n, types.MergePatchType,
							[]byte(`{"status":{"nodeInfo":{"bootID":"`+boot+`"}}}`), metav1.PatchOptions{}, "status")
						return
					}
				}
			},
		}},
		Always: func(w *reconciletest.World) error {
			n := 0
			for _, off := range w.Outside().(*fleet).off {
				if off {
					n++
				}
			}
			if n > 1 {
				return fmt.Errorf("%d machines are off at once", n)
			}
			return nil
		},
		Workload: []reconciletest.Step{need("n1"), need("n2"), need("n3")},
		Goal: func(w *reconciletest.World) error {
			f := w.Outside().(*fleet)
			for _, n := range f.names {
				if f.reboots[n] != 1 {
					return fmt.Errorf("%s was rebooted %d times", n, f.reboots[n])
				}
			}
			return nil
		},
	}, nil)
	t.Log(r.Rules)
}
