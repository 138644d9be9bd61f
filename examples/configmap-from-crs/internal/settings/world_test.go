package settings_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/settings"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// makeController makes the controller under test.
func makeController(env operator.Env) (*reconcile.Controller, error) {
	inputs, err := api.NewKind(env.Cluster)
	if err != nil {
		return nil, err
	}
	return settings.New(env.Cluster.Client(), inputs.In, nil)
}

// A world has Settings in the namespace d.
type world struct {
	*stage.World
	settings api.Settings
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	stage.Simulate(t, &apisim.Options{Resources: []apisim.Resource{{
		Group: api.Group, Version: api.Version, Resource: api.Resource, Kind: api.Kind, Namespaced: true, Status: true,
	}}}, func(w *stage.World) {
		clients, err := api.NewKind(stage.Reach(w.Sim.Admin()))
		w.Expect(err).NotTo(HaveOccurred())
		f(&world{w, clients.In("d")})
	})
}

// start runs a controller until stop is called, or until the end of the test.
func (w *world) start() (stop func()) {
	w.T.Helper()
	run := w.Start(makeController)
	return func() {
		w.T.Helper()
		w.Expect(run.Stop()).To(Succeed())
	}
}

const (
	collection = "/api/v1/namespaces/d/configmaps"
	output     = collection + "/settings"
	created    = "POST " + collection
	patched    = "PATCH " + output
	deleted    = "DELETE " + output
)

func told(name string) string {
	return fmt.Sprintf("PATCH /apis/config.homeostat.dev/v1alpha1/namespaces/d/settings/%s/status", name)
}

// set creates a Setting, a second later than the last.
func (w *world) set(name, key, value string) {
	w.T.Helper()
	w.Pass(time.Second)
	_, err := w.settings.Create(w.T.Context(), &api.Setting{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.SettingSpec{Key: key, Value: value},
	}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) unset(name string) {
	w.T.Helper()
	w.Expect(w.settings.Delete(w.T.Context(), name, metav1.DeleteOptions{})).To(Succeed())
}

// configMap returns the output.
func (w *world) configMap() *corev1.ConfigMap {
	w.T.Helper()
	got, err := w.User.CoreV1().ConfigMaps("d").Get(w.T.Context(), "settings", metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return got
}

// tamper edits the output.
func (w *world) tamper(edit func(*corev1.ConfigMap)) {
	w.T.Helper()
	object := w.configMap()
	edit(object)
	_, err := w.User.CoreV1().ConfigMaps("d").Update(w.T.Context(), object, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// condition returns reason and message of a Setting's Published.
func (w *world) condition(name string) string {
	w.T.Helper()
	setting, err := w.settings.Get(w.T.Context(), name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	c := meta.FindStatusCondition(setting.Status.Conditions, api.Published)
	w.Expect(c).NotTo(BeNil())
	w.Expect(c.ObservedGeneration).To(Equal(setting.Generation))
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}

// tooLong is the server's error about a ConfigMap that does not fit.
func tooLong() *apierrors.StatusError {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "settings",
		field.ErrorList{field.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize)})
}
