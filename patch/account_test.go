package patch_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

// accounts are edits of a Pod's spec one after the other, each with the account
// that the server has then, and the number of patches that it sends. The server
// has the name of the account in two fields, and takes one where the other is
// missing.
var accounts = []struct {
	name    string
	edit    func(spec *corev1.PodSpec)
	account string
	patches int
}{
	{"set", func(spec *corev1.PodSpec) { spec.ServiceAccountName = "one" }, "one", 1},
	{"the same", func(spec *corev1.PodSpec) { spec.ServiceAccountName = "one" }, "one", 0},
	{"changed", func(spec *corev1.PodSpec) { spec.ServiceAccountName = "two" }, "two", 1},
	{"a new spec", func(spec *corev1.PodSpec) { spec.DeprecatedServiceAccount = "" }, "two", 0},
	{"the old field", func(spec *corev1.PodSpec) { spec.DeprecatedServiceAccount = "three" }, "three", 1},
	{"both", func(spec *corev1.PodSpec) {
		spec.ServiceAccountName, spec.DeprecatedServiceAccount = "two", "two"
	}, "two", 1},
	{"cleared", func(spec *corev1.PodSpec) { spec.ServiceAccountName = "" }, "", 1},
	{"still cleared", func(spec *corev1.PodSpec) { spec.ServiceAccountName = "" }, "", 0},
}

func TestTheAccountOfAPodIsOneField(t *testing.T) {
	sim, err := apisim.New(nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	checkAccounts(t, sim.Config("controller"), "d")
}

// checkAccounts runs the edits of accounts on a server.
func checkAccounts(t *testing.T, config *rest.Config, namespace string) {
	t.Helper()
	patches := 0
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch {
				patches++
			}
			return next.RoundTrip(r)
		})
	})
	client := kubernetes.NewForConfigOrDie(config)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "a"}
	labels := map[string]string{"a": "b"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	check := func(g *WithT, ensure func(edit func(*corev1.PodSpec)) *corev1.PodSpec) {
		ensure(func(*corev1.PodSpec) {}) // creates the object
		for _, c := range accounts {
			patches = 0
			got := ensure(c.edit)
			g.Expect([]string{got.ServiceAccountName, got.DeprecatedServiceAccount}).To(HaveEach(c.account), c.name)
			g.Expect(patches).To(Equal(c.patches), c.name)
		}
	}
	t.Run("Deployment", func(t *testing.T) {
		g, ctx := NewWithT(t), t.Context()
		cached := &appsv1.Deployment{ObjectMeta: meta}
		check(g, func(edit func(*corev1.PodSpec)) *corev1.PodSpec {
			var err error
			cached, err = patch.Ensure(ctx, client.AppsV1().Deployments, cached, nil, func(d *appsv1.Deployment) {
				if d.UID == "" {
					d.Spec.Replicas, d.Spec.Template = new(int32), template
					d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
				}
				edit(&d.Spec.Template.Spec)
			})
			g.Expect(err).NotTo(HaveOccurred())
			return &cached.Spec.Template.Spec
		})
	})
	t.Run("CronJob", func(t *testing.T) {
		g, ctx := NewWithT(t), t.Context()
		cached := &batchv1.CronJob{ObjectMeta: meta}
		check(g, func(edit func(*corev1.PodSpec)) *corev1.PodSpec {
			var err error
			cached, err = patch.Ensure(ctx, client.BatchV1().CronJobs, cached, nil, func(j *batchv1.CronJob) {
				if j.UID == "" {
					j.Spec.Schedule, j.Spec.JobTemplate.Spec.Template = "@yearly", template
					j.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
				}
				edit(&j.Spec.JobTemplate.Spec.Template.Spec)
			})
			g.Expect(err).NotTo(HaveOccurred())
			return &cached.Spec.JobTemplate.Spec.Template.Spec
		})
	})
	t.Run("untyped", func(t *testing.T) {
		g, ctx := NewWithT(t), t.Context()
		deployments := dynamic.NewForConfigOrDie(config).Resource(appsv1.SchemeGroupVersion.WithResource("deployments"))
		path := []string{"spec", "template", "spec"}
		check(g, func(edit func(*corev1.PodSpec)) *corev1.PodSpec {
			cached, err := deployments.Namespace(namespace).Get(ctx, "a", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			cached, err = patch.Ensure(ctx, patch.Dynamic(deployments), cached, nil, func(u *unstructured.Unstructured) {
				spec, _, err := unstructured.NestedMap(u.Object, path...)
				g.Expect(err).NotTo(HaveOccurred())
				typed := accountOf(spec)
				edit(typed)
				for member, value := range map[string]string{
					"serviceAccountName": typed.ServiceAccountName, "serviceAccount": typed.DeprecatedServiceAccount,
				} {
					if delete(spec, member); value != "" {
						spec[member] = value
					}
				}
				g.Expect(unstructured.SetNestedMap(u.Object, spec, path...)).To(Succeed())
			})
			g.Expect(err).NotTo(HaveOccurred())
			spec, _, err := unstructured.NestedMap(cached.Object, path...)
			g.Expect(err).NotTo(HaveOccurred())
			return accountOf(spec)
		})
	})
}

func accountOf(spec map[string]any) *corev1.PodSpec {
	name, _ := spec["serviceAccountName"].(string)
	deprecated, _ := spec["serviceAccount"].(string)
	return &corev1.PodSpec{ServiceAccountName: name, DeprecatedServiceAccount: deprecated}
}
