package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/actors"
)

func pod(name string, change ...func(p *corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func node(name string, change ...func(n *corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, c := range change {
		c(n)
	}
	return n
}

func ready(status corev1.ConditionStatus) func(n *corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	}
}

func on(name string) func(p *corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

// shown returns the node of each Pod and whether it is ready.
func shown(t *testing.T, w *reconciletest.World) []string {
	t.Helper()
	pods, err := reconciletest.List[corev1.Pod](w, "pods")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range pods {
		text := strings.Join(strings.Fields(p.Name+" "+string(p.Status.Phase)+" "+p.Spec.NodeName), " ")
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				text += " " + string(c.Status)
			}
		}
		if p.DeletionTimestamp != nil {
			text += " going"
		}
		all = append(all, text)
	}
	return all
}

func TestKubeletRunsPods(t *testing.T) {
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	labelled := func(n *corev1.Node) { n.Labels = map[string]string{"disk": "fast"} }
	picky := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} }
	pinned := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"2"}},
				},
			}}},
		}}
	}
	foreign := func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }
	gated := func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/in"}}
	}
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	for _, c := range []struct {
		name    string
		objects []runtime.Object
		want    []string
	}{
		{"that are bound", []runtime.Object{pod("a", on("n"))}, []string{"a Running n True"}},
		{"that is not bound", []runtime.Object{pod("a")}, []string{"a Running node True"}},
		{"but not those that have ended", []runtime.Object{pod("a", on("n"), ended)}, []string{"a Succeeded n"}},
		{"on the first Node that there is for them", []runtime.Object{
			node("1", cordoned), node("2", ready(corev1.ConditionFalse)), node("3", ready(corev1.ConditionTrue)),
			node("4", labelled), pod("a"), pod("b", picky),
		}, []string{"a Running 3 True", "b Running 4 True"}},
		{"on the Node that their affinity names", []runtime.Object{node("1"), node("2"), pod("a", pinned)}, []string{"a Running 2 True"}},
		{"if there is a Node for them", []runtime.Object{node("1", cordoned), pod("a")}, []string{"a"}},
		{"if their scheduler is this one", []runtime.Object{pod("a", foreign)}, []string{"a"}},
		{"if their Node can be reached", []runtime.Object{
			node("n", ready(corev1.ConditionUnknown)), pod("a", on("n")),
		}, []string{"a n"}},
		{"which are ready when their gates are open", []runtime.Object{pod("a", gated)}, []string{"a Running node False"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			play(t, &reconciletest.Case{
				Objects: c.objects, Actors: []reconciletest.Actor{actors.Kubelet(nil)},
			}, func(_ int, w *reconciletest.World) { g.Expect(shown(t, w)).To(gomega.Equal(c.want)) })
		})
	}
}

func TestKubeletReportsWhatAPodHas(t *testing.T) {
	g := gomega.NewWithT(t)
	c := &reconciletest.Case{
		Objects: []runtime.Object{
			pod("a", func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "i"}} }), pod("b"),
		},
		Actors: []reconciletest.Actor{actors.Kubelet(&actors.KubeletOptions{Start: 7 * time.Minute})},
	}
	writes := play(t, c, func(_ int, w *reconciletest.World) {
		pods, err := reconciletest.List[corev1.Pod](w, "pods")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		for _, p := range pods {
			g.Expect(p.Status.ContainerStatuses).To(gomega.HaveLen(1))
			g.Expect(p.Status.ContainerStatuses[0].State.Running).NotTo(gomega.BeNil())
			g.Expect(p.Status.StartTime).NotTo(gomega.BeNil())
			g.Expect(p.Status.PodIP).To(gomega.HavePrefix("10."))
		}
		g.Expect(pods[0].Status.InitContainerStatuses[0].State.Terminated.ExitCode).To(gomega.BeZero())
		g.Expect(pods[0].Status.PodIP).NotTo(gomega.Equal(pods[1].Status.PodIP))
	})
	g.Expect(writes).To(gomega.Equal([]string{
		"0s create pods/binding d/a", "0s create pods/binding d/b", "7m0s update pods/status d/a", "7m0s update pods/status d/b",
	}))
}

// A deleted Pod gets its grace period, and the rest waits for its end, however
// long that is.
func TestKubeletEndsPods(t *testing.T) {
	g := gomega.NewWithT(t)
	held := func(p *corev1.Pod) { p.Finalizers = []string{"example.com/held"} }
	slow := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(600)) }
	c := &reconciletest.Case{
		Objects: []runtime.Object{
			pod("a"), pod("held", held), pod("lost", on("lost")), pod("slow", slow), node("here"), node("lost"),
		},
		Actors: []reconciletest.Actor{actors.Kubelet(nil)},
		Workload: []reconciletest.Step{
			reconciletest.Patch("nodes/status", "lost", `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`),
			reconciletest.Delete("pods", "d/a"), reconciletest.Delete("pods", "d/held"), reconciletest.Delete("pods", "d/lost"),
			reconciletest.Delete("pods", "d/slow"),
		},
	}
	rests := [][]string{}
	writes := play(t, c, func(_ int, w *reconciletest.World) { rests = append(rests, shown(t, w)) })
	g.Expect(rests[len(rests)-1]).To(gomega.Equal([]string{"held Running here True going", "lost Running lost True going"}))
	g.Expect(writes).To(gomega.ContainElements("30s delete pods d/a", "10m0s delete pods d/slow"))
}

func TestKubeletOpensGates(t *testing.T) {
	g := gomega.NewWithT(t)
	c := &reconciletest.Case{
		Objects: []runtime.Object{pod("a", func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/in"}}
		})},
		Actors: []reconciletest.Actor{actors.Kubelet(nil)},
		Workload: []reconciletest.Step{{
			Name: "open the gate", Do: func(ctx context.Context, w *reconciletest.World) error {
				pods := w.Client().CoreV1().Pods("d")
				p, err := pods.Get(ctx, "a", metav1.GetOptions{})
				if err != nil {
					return err
				}
				p.Status.Conditions = append(p.Status.Conditions,
					corev1.PodCondition{Type: "example.com/in", Status: corev1.ConditionTrue})
				_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
				return err
			},
		}},
	}
	last := ""
	play(t, c, func(_ int, w *reconciletest.World) { last = shown(t, w)[0] })
	g.Expect(last).To(gomega.Equal("a Running node True"))
}

func deployment(name string, size int32, change ...func(d *appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"run": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &size, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
			},
		},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

func image(name string) reconciletest.Step {
	return reconciletest.Patch("deployments.apps", "d/web",
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"`+name+`"}]}}}}`)
}

func size(n int) reconciletest.Step {
	return reconciletest.Patch("deployments.apps", "d/web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
}

func paused(p bool) reconciletest.Step {
	return reconciletest.Patch("deployments.apps", "d/web", fmt.Sprintf(`{"spec":{"paused":%v}}`, p))
}

// census counts Pods, by image, and the ready ones, and adds the counts in the
// Deployment's status.
func census(t *testing.T, w *reconciletest.World) string {
	t.Helper()
	pods, err := reconciletest.List[corev1.Pod](w, "pods")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, p := range pods {
		state := "coming"
		if p.Status.Phase == corev1.PodRunning {
			state = "ready"
		}
		if p.DeletionTimestamp != nil {
			state = "going"
		}
		count[p.Spec.Containers[0].Image+" "+state]++
	}
	var all []string
	for what, n := range count {
		all = append(all, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(all)
	deployments, err := reconciletest.List[appsv1.Deployment](w, "deployments.apps")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments {
		s := d.Status
		all = append(all, fmt.Sprintf("%s: %d of %d updated, %d available", d.Name, s.UpdatedReplicas, s.Replicas,
			s.AvailableReplicas))
		if s.ObservedGeneration != d.Generation {
			all = append(all, "not observed")
		}
		for _, c := range s.Conditions {
			all = append(all, c.Reason)
		}
	}
	return strings.Join(all, ", ")
}

const rolledOut = ", MinimumReplicasAvailable, NewReplicaSetAvailable"

func TestDeploymentsRollOut(t *testing.T) {
	recreate := func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }
	patient := func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 300 }
	for _, c := range []struct {
		name  string
		of    *appsv1.Deployment
		steps []reconciletest.Step
		want  string
	}{
		{"a new one", deployment("web", 2), nil, "2 i:1 ready, web: 2 of 2 updated, 2 available" + rolledOut},
		{"up", deployment("web", 2), []reconciletest.Step{size(5)}, "5 i:1 ready, web: 5 of 5 updated, 5 available" + rolledOut},
		{"down", deployment("web", 3), []reconciletest.Step{size(1)}, "1 i:1 ready, web: 1 of 1 updated, 1 available" + rolledOut},
		{"to none", deployment("web", 2), []reconciletest.Step{size(0)}, "web: 0 of 0 updated, 0 available" + rolledOut},
		{"another image", deployment("web", 4), []reconciletest.Step{image("i:2")}, "4 i:2 ready, web: 4 of 4 updated, 4 available" + rolledOut},
		{"and back", deployment("web", 2), []reconciletest.Step{image("i:2"), image("i:1")}, "2 i:1 ready, web: 2 of 2 updated, 2 available" + rolledOut},
		{"by recreating", deployment("web", 2, recreate), []reconciletest.Step{image("i:2")}, "2 i:2 ready, web: 2 of 2 updated, 2 available" + rolledOut},
		{"with patience", deployment("web", 2, patient), []reconciletest.Step{image("i:2")}, "2 i:2 ready, web: 2 of 2 updated, 2 available" + rolledOut},
		{"not while it is paused", deployment("web", 2), []reconciletest.Step{paused(true), image("i:2"), size(3)}, "3 i:1 ready, web: 0 of 3 updated, 3 available, MinimumReplicasAvailable"},
		{"after a pause", deployment("web", 2), []reconciletest.Step{paused(true), image("i:2"), paused(false)}, "2 i:2 ready, web: 2 of 2 updated, 2 available" + rolledOut},
		{"away", deployment("web", 2), []reconciletest.Step{reconciletest.Delete("deployments.apps", "d/web")}, ""},
		{"a recreated one", deployment("web", 2), []reconciletest.Step{
			reconciletest.Delete("deployments.apps", "d/web"), reconciletest.Create(deployment("web", 1)),
		}, "1 i:1 ready, web: 1 of 1 updated, 1 available" + rolledOut},
		{"a Pod that goes", deployment("web", 2), []reconciletest.Step{{
			Name: "delete a Pod", Do: func(ctx context.Context, w *reconciletest.World) error {
				pods, err := w.Objects("pods")
				if err != nil {
					return err
				}
				return reconciletest.Delete("pods", "d/"+pods[0].GetName()).Do(ctx, w)
			},
		}}, "2 i:1 ready, web: 2 of 2 updated, 2 available" + rolledOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			last, sets := "", 0
			world := &reconciletest.Case{
				Objects: []runtime.Object{c.of}, Workload: c.steps,
				Actors: []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()},
				Always: func(w *reconciletest.World) error { return withinBounds(w, c.of) },
			}
			play(t, world, func(_ int, w *reconciletest.World) {
				last = census(t, w)
				all, err := w.Objects("replicasets.apps")
				g.Expect(err).NotTo(gomega.HaveOccurred())
				sets = len(all)
			})
			g.Expect(last).To(gomega.Equal(c.want))
			if c.want == "" {
				g.Expect(sets).To(gomega.BeZero())
			} else {
				g.Expect(sets).To(gomega.Equal(1), "old ReplicaSets go")
			}
		})
	}
}

// withinBounds checks that the Pods of a rollout are those that the Deployment
// allows: at most a quarter more, none fewer once all were ready, and never two
// images at once if the strategy is Recreate.
func withinBounds(w *reconciletest.World, of *appsv1.Deployment) error {
	pods, err := reconciletest.List[corev1.Pod](w, "pods")
	if err != nil {
		return err
	}
	images, active := map[string]bool{}, 0
	for _, p := range pods {
		images[p.Spec.Containers[0].Image] = true
		if p.DeletionTimestamp == nil {
			active++
		}
	}
	if of.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && len(images) > 1 {
		return fmt.Errorf("both images at once: %d Pods", len(pods))
	}
	sets, err := reconciletest.List[appsv1.ReplicaSet](w, "replicasets.apps")
	if err != nil {
		return err
	}
	if most := 2 + 5; active > most { // the largest size of the table, and its quarter
		return fmt.Errorf("%d Pods are active", active)
	}
	if len(sets) < 2 || of.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	available, want := int32(0), *of.Spec.Replicas
	for _, s := range sets {
		available += s.Status.AvailableReplicas
	}
	if down := want / 4; available < want-down {
		return fmt.Errorf("only %d of %d are available", available, want)
	}
	if up := (want + 3) / 4; int32(active) > want+up {
		return fmt.Errorf("%d Pods are active: want %d and %d more", active, want, up)
	}
	return nil
}

// A task that cannot be done does not keep the others from being done, and is
// not tried forever.
func TestDeploymentsGoOnWhenOneCannot(t *testing.T) {
	g := gomega.NewWithT(t)
	bad := deployment("a-bad", 1, func(d *appsv1.Deployment) { d.Name = strings.Repeat("a", 250) })
	last := ""
	play(t, &reconciletest.Case{
		Objects: []runtime.Object{bad, deployment("web", 1)},
		Actors:  []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()},
	}, func(_ int, w *reconciletest.World) { last = census(t, w) })
	g.Expect(last).To(gomega.ContainSubstring("web: 1 of 1 updated, 1 available"))
}

func TestDeploymentsHonourBounds(t *testing.T) {
	g := gomega.NewWithT(t)
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	careful := deployment("web", 2, func(d *appsv1.Deployment) {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &none, MaxUnavailable: &one}
	})
	last := ""
	play(t, &reconciletest.Case{
		Objects: []runtime.Object{careful}, Workload: []reconciletest.Step{image("i:2")},
		Actors: []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()},
		Always: func(w *reconciletest.World) error {
			pods, err := reconciletest.List[corev1.Pod](w, "pods")
			if active := slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }); len(active) > 2 {
				err = errors.New("more than two")
			}
			return err
		},
	}, func(_ int, w *reconciletest.World) { last = census(t, w) })
	g.Expect(last).To(gomega.HavePrefix("2 i:2 ready"))
}

func TestDeploymentsWaitForMinReadySeconds(t *testing.T) {
	g := gomega.NewWithT(t)
	c := &reconciletest.Case{
		Objects: []runtime.Object{deployment("web", 1, func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 300 })},
		Actors:  []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()},
	}
	writes := play(t, c, func(_ int, w *reconciletest.World) {
		g.Expect(census(t, w)).To(gomega.HaveSuffix("1 available" + rolledOut))
	})
	g.Expect(writes[len(writes)-2:]).To(gomega.HaveExactElements(
		gomega.HavePrefix("5m2s update replicasets/status d/web-"), "5m2s update deployments/status d/web"))
}
