package mirror_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/mirror/internal/mirror"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 5 * time.Second

const resource = "secretmirrors.mirror.homeostat.dev"

func mirrorOf(name, source string) *mirror.SecretMirror {
	return &mirror.SecretMirror{
		TypeMeta:   metav1.TypeMeta{APIVersion: "mirror.homeostat.dev/v1alpha1", Kind: "SecretMirror"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: mirror.SecretMirrorSpec{
			Source:     mirror.Source{Namespace: "home", Name: source},
			Namespaces: metav1.LabelSelector{MatchLabels: map[string]string{"team": "yes"}},
		},
	}
}

func namespace(name, team string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}},
	}
}

func secret(namespace, name, value string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"is": []byte(value)},
	}
}

// lifeOfMirrors is a world in which sources, namespaces and mirrors come,
// change and go.
func lifeOfMirrors() *reconciletest.Case {
	return &reconciletest.Case{
		Roles: []string{"../../deploy/rbac.yaml"},
		Resources: []metav1.APIResource{{
			Group: "mirror.homeostat.dev", Version: "v1alpha1", Name: "secretmirrors", Kind: "SecretMirror",
		}},
		Run: func(env *reconciletest.Env) error {
			controllers, err := mirror.Setup(operator.Env{
				Context: env.Context(), Cluster: stage.Reach(env.Config()), Events: &events.FakeRecorder{},
			})
			if err != nil {
				return err
			}
			return reconcile.RunAll(env.Context(), controllers...)
		},
		Workload: []reconciletest.Step{
			reconciletest.Create(secret("home", "pass", "one")),
			reconciletest.Create(namespace("a", "yes")),
			reconciletest.Create(namespace("b", "yes")),
			reconciletest.Create(mirrorOf("m", "pass")),
			reconciletest.Create(mirrorOf("gone", "other")),
			reconciletest.Create(secret("home", "other", "two")),
			reconciletest.Patch("secrets", "home/pass", `{"stringData":null,"data":{"is":"dGhyZWU="}}`),
			reconciletest.Patch("namespaces", "b", `{"metadata":{"labels":{"team":"no"}}}`),
			reconciletest.Create(namespace("c", "yes")),
			reconciletest.Delete(resource, "gone"),
		},
		Goal: onlyTheCopies,
	}
}

// onlyTheCopies returns nil if a and c have the newest copy of one source, and
// nothing of the other.
func onlyTheCopies(w *reconciletest.World) error {
	all, err := reconciletest.List[corev1.Secret](w, "secrets")
	if err != nil {
		return err
	}
	have := map[string]string{}
	for i := range all {
		have[all[i].Namespace+"/"+all[i].Name] = string(all[i].Data["is"])
	}
	want := map[string]string{"home/pass": "three", "home/other": "two", "a/pass": "three", "c/pass": "three"}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		return fmt.Errorf("the Secrets are %v, want %v", have, want)
	}
	return nil
}

// A fault at every call and every event, and the same end.
func TestItSurvivesEveryFault(t *testing.T) {
	reconciletest.Explore(t, lifeOfMirrors(), &reconciletest.Options{Budget: exploration})
}
