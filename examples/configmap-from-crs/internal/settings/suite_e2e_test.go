//go:build e2e

package settings_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/settings"
	"github.com/homeostat/homeostat/examples/internal/wiretap"
	"github.com/homeostat/homeostat/internal/e2e"
)

func TestE2EConfigMapFromCRs(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "configmap-from-crs on the real server")
}

var (
	cluster  *e2e.Cluster
	user     kubernetes.Interface
	userSets func(namespace string) api.Settings
	account  *rest.Config // the ServiceAccount's, with the shipped RBAC
)

// patience is how long anything may take on a busy machine.
const patience = time.Minute

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	cluster, err = e2e.Start(ctx, &e2e.Options{Progress: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	config := cluster.Config()
	config.QPS = -1
	user, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	userSets, err = api.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{"crd.yaml", "namespace.yaml", "rbac.yaml"} {
		manifest, err := os.ReadFile("../../deploy/" + file)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Apply(ctx, string(manifest))).To(Succeed())
	}
	account, err = cluster.As(ctx, settings.Name, settings.Name)
	Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(account)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: api.Group, Resource: api.Resource},
			}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}, patience).Should(BeTrue())
})

// start runs a controller until stop is called, or until the end of the spec.
func startReal(tap *wiretap.Tap) (stop func()) {
	GinkgoHelper()
	wired := tap.Config(account)
	client, err := kubernetes.NewForConfig(wired)
	Expect(err).NotTo(HaveOccurred())
	inputs, err := api.NewForConfig(wired)
	Expect(err).NotTo(HaveOccurred())
	c, err := settings.New(client, inputs, nil)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the node that starts it
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			Expect(<-ended).To(Succeed())
		}
	}
	DeferCleanup(stop)
	return stop
}

func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace, err := cluster.Namespace(ctx, "config")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(user.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
	})
	return namespace
}

func setting(ctx context.Context, namespace, name, key, value string) {
	GinkgoHelper()
	_, err := userSets(namespace).Create(ctx, &api.Setting{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.SettingSpec{Key: key, Value: value},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// outputIn returns a function that returns the data of the ConfigMap; nil if
// there is none.
func outputIn(ctx context.Context, namespace string) func() (map[string]string, error) {
	return func() (map[string]string, error) {
		got, err := user.CoreV1().ConfigMaps(namespace).Get(ctx, "settings", metav1.GetOptions{})
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

// tamperReal does to the output what somebody may do to it.
func tamperReal(ctx context.Context, namespace string) map[string]func() {
	maps := user.CoreV1().ConfigMaps(namespace)
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
