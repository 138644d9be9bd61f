//go:build e2e

package settings_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/settings"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

func TestE2EConfigMapFromCRs(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "configmap-from-crs on the real server")
}

var (
	cluster  *stage.Cluster
	userSets func(namespace string) api.Settings
)

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = stage.Open(ctx, nil)
	cluster.Deploy(ctx, settings.Name, "../../deploy")
	inputs, err := api.NewKind(stage.Reach(cluster.Config()))
	Expect(err).NotTo(HaveOccurred())
	userSets = inputs.In
})

// startReal runs a controller until stop is called, or until the end of the
// spec.
func startReal(tap *wiretap.Tap) (stop func()) {
	GinkgoHelper()
	run := cluster.Start(cluster.Account, tap, makeController)
	return func() { Expect(run.Stop()).To(Succeed()) }
}

func setting(ctx context.Context, namespace, name, key, value string) {
	GinkgoHelper()
	_, err := userSets(namespace).Create(ctx, &api.Setting{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.SettingSpec{Key: key, Value: value},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// outputIn returns a function that returns the data of the ConfigMap, or nil if
// the ConfigMap does not exist.
func outputIn(ctx context.Context, namespace string) func() (map[string]string, error) {
	return func() (map[string]string, error) {
		got, err := cluster.User.CoreV1().ConfigMaps(namespace).Get(ctx, "settings", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return got.Data, nil
	}
}

// reasonOf returns a function that returns the reason of a Setting's Published.
func reasonOf(ctx context.Context, namespace, name string) func() (string, error) {
	return func() (string, error) {
		got, err := userSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(got.Status.Conditions, api.Published)
		if c == nil || c.ObservedGeneration != got.Generation {
			return "", nil
		}
		return c.Reason, nil
	}
}

// tamperReal edits the output as another client may.
func tamperReal(ctx context.Context, namespace string) map[string]func() {
	maps := cluster.User.CoreV1().ConfigMaps(namespace)
	edit := func(f func(*corev1.ConfigMap)) func() {
		return func() {
			GinkgoHelper()
			got, err := maps.Get(ctx, "settings", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			f(got)
			_, err = maps.Update(ctx, got, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}
	return map[string]func(){
		"edited": edit(func(c *corev1.ConfigMap) { c.Data["colour"] = "blue" }),
		"grown":  edit(func(c *corev1.ConfigMap) { c.Data["other"] = "x" }),
		"frozen": edit(func(c *corev1.ConfigMap) { frozen := true; c.Data["colour"], c.Immutable = "green", &frozen }),
		"deleted": func() {
			GinkgoHelper()
			Expect(maps.Delete(ctx, "settings", metav1.DeleteOptions{})).To(Succeed())
		},
	}
}
