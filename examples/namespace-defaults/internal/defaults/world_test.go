package defaults_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/internal/wiretap"
	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A world is a simulated API server, a user of it, and what the controller
// wrote.
type world struct {
	*WithT
	t        *testing.T
	sim      *apisim.Server
	tap      *wiretap.Tap
	user     kubernetes.Interface
	recorder *events.FakeRecorder
	policy   *defaults.Policy
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{WithT: NewWithT(t), t: t, tap: &wiretap.Tap{}, recorder: events.NewFakeRecorder(100)}
		var err error
		w.policy, err = defaults.ReadPolicy("../../deploy/policy.yaml")
		w.Expect(err).NotTo(HaveOccurred())
		w.sim, err = apisim.New(nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.user, err = kubernetes.NewForConfig(w.sim.Admin())
		w.Expect(err).NotTo(HaveOccurred())
		f(w)
	})
}

// start runs a controller until stop is called.
func (w *world) start() (stop func()) {
	w.t.Helper()
	client, err := kubernetes.NewForConfig(w.tap.Config(w.sim.Config("controller")))
	w.Expect(err).NotTo(HaveOccurred())
	c, err := defaults.New(client, w.policy, &defaults.Options{Events: w.recorder})
	w.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	synctest.Wait()
	return func() {
		w.t.Helper()
		cancel()
		w.Expect(<-ended).To(Succeed())
	}
}

// writes returns what the controller wrote since the last call.
func (w *world) writes() []string {
	synctest.Wait()
	return w.tap.Writes()
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
	w.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	for _, edit := range edits {
		edit(namespace)
	}
	_, err := w.user.CoreV1().Namespaces().Create(w.t.Context(), namespace, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) namespace() *corev1.Namespace {
	w.t.Helper()
	got, err := w.user.CoreV1().Namespaces().Get(w.t.Context(), "team", metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return got
}

// edit changes the namespace as a user does.
func (w *world) edit(edit func(*corev1.Namespace)) {
	w.t.Helper()
	namespace := w.namespace()
	edit(namespace)
	_, err := w.user.CoreV1().Namespaces().Update(w.t.Context(), namespace, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func ownedBy(owner string) func(*corev1.Namespace) {
	return func(n *corev1.Namespace) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, defaults.OwnerKey, owner) }
}

func exempt(n *corev1.Namespace) { metav1.SetMetaDataLabel(&n.ObjectMeta, defaults.ExemptKey, "true") }
