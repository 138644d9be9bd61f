package website_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/cluster"
	v1 "github.com/homeostat/homeostat/examples/website/api/v1"
	"github.com/homeostat/homeostat/examples/website/internal/website"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 8 * time.Second

// lifeOfWebsites is a world in which Websites are made, changed and deleted,
// and their Secrets, too.
func lifeOfWebsites(t *testing.T) *reconciletest.Case {
	return &reconciletest.Case{
		Roles:    []string{"../../deploy/rbac.yaml", "testdata/secrets.yaml"},
		Unneeded: []string{"delete deployments.apps", "delete services"}, // where a version before gave them other names
		Resources: []metav1.APIResource{{
			Group: v1.GroupVersion.Group, Version: "v1", Name: "websites", Kind: "Website", Namespaced: true,
		}},
		Outside: func() any { return newCDN(t) },
		Run: func(env *reconciletest.Env) error {
			c, err := cluster.New(env.Config(), nil)
			if err != nil {
				return err
			}
			controllers, err := website.Setup(
				operator.Env{Cluster: c, Events: &events.FakeRecorder{}}, env.Outside().(website.CDN))
			if err != nil {
				return err
			}
			return reconcile.RunAll(env.Context(), controllers...)
		},
		Actors: []reconciletest.Actor{rollout()},
		Workload: []reconciletest.Step{
			reconciletest.Create(siteOf("shop", "one")),
			reconciletest.Create(secretOf("one", "first")),
			reconciletest.Patch("websites.web.homeostat.dev", "d/shop", `{"spec":{"replicas":2}}`),
			reconciletest.Create(siteOf("blog", "one")),
			reconciletest.Patch("secrets", "d/one", `{"data":{"key":"c2Vjb25k"}}`),
			reconciletest.Delete("websites.web.homeostat.dev", "d/blog"),
		},
		Goal: func(w *reconciletest.World) error {
			sites, err := reconciletest.List[v1.Website](w, "websites.web.homeostat.dev")
			if err != nil {
				return err
			}
			if len(sites) != 1 || !meta.IsStatusConditionTrue(sites[0].Status.Conditions, "Ready") {
				return fmt.Errorf("the Websites are %v, want one that is ready", sites)
			}
			if ready := sites[0].Status.Conditions[0]; ready.ObservedGeneration != sites[0].Generation {
				return fmt.Errorf("the condition is about generation %d of %d", ready.ObservedGeneration, sites[0].Generation)
			}
			cdn := w.Outside().(website.CDN)
			if got := entryIn(cdn, "shop"); got != "shop.example.com http://shop.d.svc\n" {
				return fmt.Errorf("the CDN has %q for the shop", got)
			}
			if entryIn(cdn, "blog") != "" {
				return errors.New("the CDN still has the blog")
			}
			return nil
		},
	}
}

// rollout makes the replicas of Deployments available: the least that
// actors.Deployments and actors.Kubelet do.
func rollout() reconciletest.Actor {
	waiting := func(w *reconciletest.World) []*unstructured.Unstructured {
		all, err := w.Objects("deployments.apps")
		if err != nil {
			panic(err)
		}
		return slices.DeleteFunc(slices.Clone(all), func(d *unstructured.Unstructured) bool {
			observed, _, _ := unstructured.NestedInt64(d.Object, "status", "observedGeneration")
			return observed == d.GetGeneration()
		})
	}
	return reconciletest.Actor{
		Name:    "rollout",
		Enabled: func(w *reconciletest.World) bool { return len(waiting(w)) > 0 },
		Do: func(w *reconciletest.World) {
			for _, d := range waiting(w)[:1] {
				wanted, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
				_, _ = w.Client().AppsV1().Deployments(d.GetNamespace()).Patch(context.Background(), d.GetName(),
					types.MergePatchType, fmt.Appendf(nil,
						`{"status":{"observedGeneration":%d,"replicas":%[2]d,"updatedReplicas":%[2]d,"availableReplicas":%[2]d}}`,
						d.GetGeneration(), wanted), metav1.PatchOptions{}, "status")
			}
		},
	}
}

// A fault at every call and every event, and the same end.
func TestItSurvivesEveryFault(t *testing.T) {
	reconciletest.Explore(t, lifeOfWebsites(t), &reconciletest.Options{Budget: exploration})
}

// newCDN is an empty one.
func newCDN(t *testing.T) website.CDN { return website.CDN(t.TempDir()) }

// entryIn returns the entry of a website, or "" if it does not exist.
func entryIn(cdn website.CDN, name string) string {
	entry, _ := cdn.Entry(key(name))
	return string(entry)
}

func key(name string) reconcile.Key { return reconcile.Key{Namespace: "d", Name: name} }

func siteOf(name, secret string) *v1.Website {
	return &v1.Website{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "Website"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec:       v1.WebsiteSpec{Host: name + ".example.com", Image: "web:1", Replicas: 1, SecretName: secret},
	}
}

func secretOf(name, value string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Data:       map[string][]byte{"key": []byte(value)},
	}
}
