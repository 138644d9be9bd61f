package defaults_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// makerOf makes controllers with a policy.
func makerOf(policy *defaults.Policy) stage.Maker {
	return func(env operator.Env) (*reconcile.Controller, error) {
		return defaults.New(env.Cluster.Client(), policy, &defaults.Options{Events: env.Events})
	}
}

// A world has a policy, and perhaps a namespace team.
type world struct {
	*stage.World
	policy *defaults.Policy
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	stage.Simulate(t, nil, func(w *stage.World) {
		policy, err := defaults.ReadPolicy("../../deploy/policy.yaml")
		w.Expect(err).NotTo(HaveOccurred())
		f(&world{w, policy})
	})
}

// start runs a controller until stop is called, or until the end of the test.
func (w *world) start() (stop func()) {
	w.T.Helper()
	run := w.Start(makerOf(w.policy))
	return func() {
		w.T.Helper()
		w.Expect(run.Stop()).To(Succeed())
	}
}

const (
	owned         = "PATCH /api/v1/namespaces/team"
	quotas        = "/api/v1/namespaces/team/resourcequotas"
	limits        = "/api/v1/namespaces/team/limitranges"
	quotaCreated  = "POST " + quotas
	limitsCreated = "POST " + limits
	quotaPatched  = "PATCH " + quotas + "/namespace-defaults"
	limitsPatched = "PATCH " + limits + "/namespace-defaults"
	quotaDeleted  = "DELETE " + quotas + "/namespace-defaults"
	limitsDeleted = "DELETE " + limits + "/namespace-defaults"
)

// create makes the namespace team.
func (w *world) create(edits ...func(*corev1.Namespace)) {
	w.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	for _, edit := range edits {
		edit(namespace)
	}
	_, err := w.User.CoreV1().Namespaces().Create(w.T.Context(), namespace, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) namespace() *corev1.Namespace {
	w.T.Helper()
	got, err := w.User.CoreV1().Namespaces().Get(w.T.Context(), "team", metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return got
}

// edit changes the namespace as a user does.
func (w *world) edit(edit func(*corev1.Namespace)) {
	w.T.Helper()
	namespace := w.namespace()
	edit(namespace)
	_, err := w.User.CoreV1().Namespaces().Update(w.T.Context(), namespace, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func ownedBy(owner string) func(*corev1.Namespace) {
	return func(n *corev1.Namespace) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, defaults.OwnerKey, owner) }
}

func exempt(n *corev1.Namespace) { metav1.SetMetaDataLabel(&n.ObjectMeta, defaults.ExemptKey, "true") }
