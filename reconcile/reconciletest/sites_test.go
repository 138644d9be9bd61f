package reconciletest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/actors"
)

// A site is a ConfigMap with the label site and an image; it gets a Deployment,
// and when all of its Pods run that image, the annotation serves says so.
func site(name, image string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, Labels: map[string]string{"site": "yes"}},
		Data:       map[string]string{"image": image},
	}
}

// served reports whether a Deployment serves its desired state; after is when
// to look again, if nothing changes.
type served = func(d *appsv1.Deployment) (yes bool, after time.Duration)

// complete trusts the status of the Deployment once it is about the present
// generation.
func complete(d *appsv1.Deployment) (bool, time.Duration) {
	s := d.Status
	return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == *d.Spec.Replicas && s.Replicas == s.UpdatedReplicas &&
		s.AvailableReplicas == s.UpdatedReplicas, 0
}

// oldNews trusts the status even if it is about an older generation.
func oldNews(d *appsv1.Deployment) (bool, time.Duration) {
	return d.Status.AvailableReplicas == *d.Spec.Replicas, 0
}

// patient thinks that half a minute is always enough.
func patient(d *appsv1.Deployment) (bool, time.Duration) {
	if d.Annotations["image-since"] == "" {
		return false, 0
	}
	since, err := time.Parse(time.RFC3339, d.Annotations["image-since"])
	left := time.Until(since.Add(30 * time.Second))
	return err == nil && left <= 0, left
}

// deployment returns a Deployment with two Pods.
func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"run": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
			},
		},
	}
}

func serve(ok served) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		client := env.Client()
		sites := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "site"})
		deployments := informer.For(client.AppsV1().Deployments(""), nil)
		one := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			s, there := r.Object()
			if !there {
				return reconcile.Result{}, nil
			}
			d, known := deployments.Snapshot().Get(types.NamespacedName(r.Key))
			if !known {
				d = deployment(s.Name)
			}
			return serveOne(ctx, client, s, d, ok)
		}
		c, err := reconcile.New("sites", sites, reconcile.Func[*corev1.ConfigMap](one),
			&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(deployments)}})
		if err != nil {
			return err
		}
		return c.Run(env.Context())
	}
}

func serveOne(
	ctx context.Context, client kubernetes.Interface, s *corev1.ConfigMap, d *appsv1.Deployment, ok served,
) (reconcile.Result, error) {
	image := s.Data["image"]
	d, err := patch.Ensure(ctx, client.AppsV1().Deployments, d, nil, func(d *appsv1.Deployment) {
		d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
		c := &d.Spec.Template.Spec.Containers[0]
		if c.Image != image || d.Annotations["image-since"] == "" {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, "image-since", time.Now().UTC().Format(time.RFC3339))
		}
		c.Image = image
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	yes, after := ok(d)
	switch {
	case !yes && after > 0:
		return reconcile.After(after), nil
	case !yes:
		return reconcile.Result{}, nil
	}
	_, err = patch.Merge(ctx, client.CoreV1().ConfigMaps, s, nil,
		func(edit *corev1.ConfigMap) { metav1.SetMetaDataAnnotation(&edit.ObjectMeta, "serves", image) })
	return reconcile.Result{}, err
}

func serving(ok served) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{site("shop", "shop:1")},
		Run:     serve(ok),
		Actors:  []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()},
		Workload: []reconciletest.Step{
			reconciletest.Patch("configmaps", "d/shop", `{"data":{"image":"shop:2"}}`),
			reconciletest.Delete("configmaps", "d/shop"),
		},
		Ignore: []string{"metadata.annotations.image-since"},
	}
}

// saysTrue: a site that is reported as served has two Pods. That holds only
// without faults: after a restart on a stale cache the old image comes back for
// a moment.
func saysTrue(w *reconciletest.World) error {
	sites, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
	if err != nil {
		return err
	}
	pods, err := reconciletest.List[corev1.Pod](w, "pods")
	if err != nil {
		return err
	}
	for _, s := range sites {
		said, ready := s.Annotations["serves"], 0
		for _, p := range pods {
			if p.Spec.Containers[0].Image == said && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				ready++
			}
		}
		if said != "" && said == s.Data["image"] && ready < 2 {
			return fmt.Errorf("%s is said to serve %s, which runs in %d Pods", s.Name, said, ready)
		}
	}
	return nil
}

func TestActorsLiveWithAProgram(t *testing.T) {
	g := gomega.NewWithT(t)
	c := serving(complete)
	report := reconciletest.Search(t, c, &reconciletest.Options{Budget: time.Second, SkipDrift: true})
	t.Log(report, report.Elapsed)
	g.Expect(report.Failure).To(gomega.BeEmpty())
	for _, r := range report.Rules {
		g.Expect(r.Resources).NotTo(gomega.ContainElements(gomega.HavePrefix("pods")), "these are calls of actors")
		g.Expect(r.Resources).NotTo(gomega.ContainElement("replicasets"))
	}
}

func TestActorsShowWhatAProgramDoesNotWaitFor(t *testing.T) {
	for _, b := range []struct {
		name, plan, want string
		ok               served
	}{
		{"old news", "", "is said to serve", oldNews},
		{"a while", "a6", "is said to serve shop:1, which runs in 0 Pods", patient},
	} {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := serving(b.ok)
			c.Always = saysTrue
			if b.plan == "" {
				report := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget, SkipDrift: true})
				t.Log(report.Failure)
				g.Expect(report.Failure).To(gomega.ContainSubstring(b.want))
				return
			}
			lines, found := reconciletest.TraceOf(t, c, nil, b.plan)
			t.Logf("%s\n%s", found, strings.Join(lines, "\n"))
			g.Expect(found).To(gomega.ContainSubstring(b.want))
			g.Expect(lines).To(gomega.ContainElement(gomega.HavePrefix("actor     deployments: create replicasets.apps d/shop-")))
		})
	}
}

// With actors, too, a repeated run takes the same path.
func TestActorsAreDeterministic(t *testing.T) {
	g := gomega.NewWithT(t)
	c := serving(complete)
	c.Workload = nil
	for seed, hashes := range reconciletest.SeedHashes(t, c, 8, 2) {
		g.Expect(hashes).To(gomega.HaveEach(hashes[0]), "seed %d", seed)
	}
}

// A waiter makes a Pod for a parent, and marks the parent when the Pod is
// ready.
func TestKubeletMakesAWaiterGoOn(t *testing.T) {
	g := gomega.NewWithT(t)
	c := &reconciletest.Case{
		Objects:  []runtime.Object{breeding.Parent("a")},
		Run:      waitForPod,
		Actors:   []reconciletest.Actor{actors.Kubelet(nil)},
		Workload: []reconciletest.Step{reconciletest.Delete("pods", "d/a"), reconciletest.Delete("configmaps", "d/a")},
	}
	report := reconciletest.Search(t, c, &reconciletest.Options{Budget: time.Second})
	t.Log(report, report.Elapsed)
	g.Expect(report.Failure).To(gomega.BeEmpty())
}

func waitForPod(env *reconciletest.Env) error {
	client := env.Client()
	pods := informer.For(client.CoreV1().Pods(""), nil)
	one := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		p, there := r.Object()
		if !there {
			return reconcile.Result{}, nil
		}
		mine, known := pods.Snapshot().Get(types.NamespacedName(r.Key))
		if !known {
			_, err := client.CoreV1().Pods(p.Namespace).Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: p.Namespace, Name: p.Name, OwnerReferences: breeding.Child(p).OwnerReferences,
				},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				err = nil
			}
			return reconcile.Result{}, err
		}
		phase := string(mine.Status.Phase)
		if mine.DeletionTimestamp != nil {
			phase = "going"
		}
		_, err := patch.Merge(ctx, client.CoreV1().ConfigMaps, p, nil,
			func(edit *corev1.ConfigMap) { metav1.SetMetaDataAnnotation(&edit.ObjectMeta, "pod", phase) })
		return reconcile.Result{}, err
	}
	parents := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "parent"})
	c, err := reconcile.New("waiter", parents, reconcile.Func[*corev1.ConfigMap](one),
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(pods)}})
	if err != nil {
		return err
	}
	return c.Run(env.Context())
}
