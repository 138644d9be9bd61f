package settings_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/settings"
	"github.com/homeostat/homeostat/examples/internal/wiretap"
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
	settings api.Settings
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{WithT: NewWithT(t), t: t, tap: &wiretap.Tap{}}
		var err error
		w.sim, err = apisim.New(&apisim.Options{Resources: []apisim.Resource{{
			Group: api.Group, Version: api.Version, Resource: api.Resource, Kind: api.Kind, Namespaced: true, Status: true,
		}}})
		w.Expect(err).NotTo(HaveOccurred())
		w.user, err = kubernetes.NewForConfig(w.sim.Admin())
		w.Expect(err).NotTo(HaveOccurred())
		clients, err := api.NewForConfig(w.sim.Admin())
		w.Expect(err).NotTo(HaveOccurred())
		w.settings = clients("d")
		f(w)
	})
}

// start runs a controller until stop is called.
func (w *world) start() (stop func()) {
	w.t.Helper()
	config := w.tap.Config(w.sim.Config("controller"))
	client, err := kubernetes.NewForConfig(config)
	w.Expect(err).NotTo(HaveOccurred())
	inputs, err := api.NewForConfig(config)
	w.Expect(err).NotTo(HaveOccurred())
	c, err := settings.New(client, inputs, nil)
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
	w.t.Helper()
	<-time.After(time.Second)
	_, err := w.settings.Create(w.t.Context(), &api.Setting{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.SettingSpec{Key: key, Value: value},
	}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) unset(name string) {
	w.t.Helper()
	w.Expect(w.settings.Delete(w.t.Context(), name, metav1.DeleteOptions{})).To(Succeed())
}

// configMap returns the output.
func (w *world) configMap() *corev1.ConfigMap {
	w.t.Helper()
	got, err := w.user.CoreV1().ConfigMaps("d").Get(w.t.Context(), "settings", metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return got
}

// tamper edits the output.
func (w *world) tamper(edit func(*corev1.ConfigMap)) {
	w.t.Helper()
	object := w.configMap()
	edit(object)
	_, err := w.user.CoreV1().ConfigMaps("d").Update(w.t.Context(), object, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// condition returns reason and message of a Setting's Published.
func (w *world) condition(name string) string {
	w.t.Helper()
	setting, err := w.settings.Get(w.t.Context(), name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	c := meta.FindStatusCondition(setting.Status.Conditions, api.Published)
	w.Expect(c).NotTo(BeNil())
	w.Expect(c.ObservedGeneration).To(Equal(setting.Generation))
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}

// tooLong is what the server says of a ConfigMap that does not fit.
func tooLong() error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "settings",
		field.ErrorList{field.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize)})
}
