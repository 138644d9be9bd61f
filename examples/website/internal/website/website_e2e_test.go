//go:build e2e

package website_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	v1 "github.com/homeostat/homeostat/examples/website/api/v1"
	"github.com/homeostat/homeostat/examples/website/internal/website"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
)

func TestE2EWebsite(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "website on the real server")
}

var (
	server *stage.Cluster
	sites  *cluster.Kind[*v1.Website, *v1.WebsiteList]
)

var _ = BeforeSuite(func(ctx SpecContext) {
	server = stage.Open(ctx, nil)
	server.Deploy(ctx, website.Name, "../../deploy")
	var err error
	sites, err = cluster.NewKind[*v1.Website, *v1.WebsiteList](
		stage.Reach(server.Config()), v1.GroupVersion.WithResource("websites"), v1.AddToScheme)
	Expect(err).NotTo(HaveOccurred())
})

// start runs the operator under its account, with the rights that it ships,
// until the spec ends.
func start(tap *wiretap.Tap, cdn website.CDN) *stage.Run {
	GinkgoHelper()
	return server.Start(server.Account, tap, func(env operator.Env) (*reconcile.Controller, error) {
		controllers, err := website.Setup(env, cdn)
		return controllers[0], err
	})
}

// stored is a Website without replicas, which is ready without a kubelet, and
// its Secret.
func stored(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	secret, site := secretOf("one", "first"), siteOf(name, "one")
	secret.Namespace, site.Namespace, site.Spec.Replicas = namespace, namespace, 0
	role, err := os.ReadFile("testdata/secrets.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(server.Apply(ctx, strings.Replace(string(role), "metadata:\n", "metadata:\n  namespace: "+namespace+"\n", 1),
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: website-secrets, namespace: `+namespace+`},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: website-secrets},
			subjects: [{kind: ServiceAccount, name: website, namespace: website}]}`)).To(Succeed())
	_, err = server.User.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = sites.In(namespace).Create(ctx, site, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func() (bool, error) {
		got, err := sites.In(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionTrue(got.Status.Conditions, "Ready"), err
	}, stage.Patience).Should(BeTrue())
}

// outputs are the operator's objects for a Website, without fields that every
// write changes.
type outputs struct {
	deployment *appsv1.DeploymentSpec
	service    *corev1.ServiceSpec
	labels     [2]map[string]string
	owned      bool
}

func outputsOf(ctx context.Context, namespace, name string) outputs {
	d, err := server.User.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return outputs{}
	}
	s, err := server.User.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return outputs{}
	}
	spec := s.Spec.DeepCopy()
	spec.ClusterIP, spec.ClusterIPs = "", nil // a recreated Service has a different one
	return outputs{
		&d.Spec, spec,
		[2]map[string]string{d.Labels, s.Labels},
		metav1.GetControllerOf(d) != nil && metav1.GetControllerOf(s) != nil,
	}
}

// tampering returns changes that other clients may make to the outputs.
func tampering(ctx context.Context, client kubernetes.Interface, namespace, name string) map[string]func() error {
	deployments, services := client.AppsV1().Deployments(namespace), client.CoreV1().Services(namespace)
	patched := func(service bool, body string) func() error {
		return func() (err error) {
			if service {
				_, err = services.Patch(ctx, name, "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
			} else {
				_, err = deployments.Patch(ctx, name, "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
			}
			return err
		}
	}
	return map[string]func() error{
		"the Deployment is deleted":     func() error { return deployments.Delete(ctx, name, metav1.DeleteOptions{}) },
		"the Service is deleted":        func() error { return services.Delete(ctx, name, metav1.DeleteOptions{}) },
		"the Deployment is scaled":      patched(false, `{"spec":{"replicas":3}}`),
		"the image is edited":           patched(false, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"other:1"}]}}}}`),
		"the Deployment is disowned":    patched(false, `{"metadata":{"ownerReferences":null}}`),
		"the Deployment loses its mark": patched(false, `{"metadata":{"labels":null}}`),
		"the sum is edited":             patched(false, `{"spec":{"template":{"metadata":{"annotations":{"web.homeostat.dev/secret":"x"}}}}}`),
		"the selector is edited":        patched(true, `{"spec":{"selector":{"web.homeostat.dev/website":"other"}}}`),
		"the port is edited":            patched(true, `{"spec":{"ports":[{"port":81}]}}`),
		"the type is edited":            patched(true, `{"spec":{"type":"NodePort"}}`),
		"the Service is disowned":       patched(true, `{"metadata":{"ownerReferences":null}}`),
		"the Service loses its mark":    patched(true, `{"metadata":{"labels":null}}`),
	}
}

var _ = Describe("website", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = server.TemporaryNamespace(ctx) })

	It("restores what others delete and edit, and is quiet in between", func(ctx SpecContext) {
		tap, cdn := &wiretap.Tap{}, website.CDN(GinkgoT().TempDir())
		start(tap, cdn)
		stored(ctx, namespace, "shop")
		before := outputsOf(ctx, namespace, "shop")
		Expect(before.owned).To(BeTrue())
		for how, tamper := range tampering(ctx, server.User, namespace, "shop") {
			By(how)
			Expect(tamper()).To(Succeed())
			Eventually(ctx, func() outputs { return outputsOf(ctx, namespace, "shop") }, stage.Patience, 5*time.Millisecond).
				Should(Equal(before), how)
		}
		tap.Writes()
		Consistently(ctx, tap.Writes, 5*time.Second).Should(BeEmpty())

		changed := secretOf("one", "second")
		changed.Namespace = namespace
		_, err := server.User.CoreV1().Secrets(namespace).Update(ctx, changed, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() any {
			return outputsOf(ctx, namespace, "shop").deployment.Template.Annotations
		}, stage.Patience).ShouldNot(Equal(before.deployment.Template.Annotations))

		file := string(cdn) + "/" + namespace + ".shop"
		Expect(file).To(BeARegularFile())
		Expect(sites.In(namespace).Delete(ctx, "shop", metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, func() error {
			_, err := server.User.AppsV1().Deployments(namespace).Get(ctx, "shop", metav1.GetOptions{})
			return err
		}, stage.Patience).Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "the garbage collector")
		Expect(file).NotTo(BeAnExistingFile())
	}, SpecTimeout(3*time.Minute))

	DescribeTable("restores nothing of an output that is not watched", func(ctx SpecContext, path, how string) {
		cdn := website.CDN(GinkgoT().TempDir())
		run := start(&wiretap.Tap{}, cdn)
		stored(ctx, namespace, "shop")
		before := outputsOf(ctx, namespace, "shop")
		Expect(run.Stop()).To(Succeed())
		Eventually(start(&wiretap.Tap{Before: wiretap.Mute(path)}, cdn).Idle, stage.Patience).Should(BeTrue())
		Expect(tampering(ctx, server.User, namespace, "shop")[how]()).To(Succeed())
		Consistently(ctx, func() outputs { return outputsOf(ctx, namespace, "shop") }, 5*time.Second).ShouldNot(Equal(before),
			"red: this is what the watch is for")
	},
		Entry("Deployments", "/apis/apps/v1/deployments", "the Deployment is deleted", SpecTimeout(2*time.Minute)),
		Entry("Services", "/api/v1/services", "the Service is deleted", SpecTimeout(2*time.Minute)),
	)

	It("has a type that the server checks", func(ctx SpecContext) {
		for field, edit := range map[string]func(*v1.Website){
			"spec.host":       func(w *v1.Website) { w.Spec.Host = "no spaces" },
			"spec.image":      func(w *v1.Website) { w.Spec.Image = "" },
			"spec.secretName": func(w *v1.Website) { w.Spec.SecretName = "" },
			"spec.replicas":   func(w *v1.Website) { w.Spec.Replicas = -1 },
			"failed rule":     func(w *v1.Website) { w.Name = "1.2" },
		} {
			bad := siteOf("bad", "one")
			bad.Namespace = namespace
			edit(bad)
			_, err := sites.In(namespace).Create(ctx, bad, metav1.CreateOptions{})
			Expect(err).To(MatchError(ContainSubstring(field)))
		}
	}, SpecTimeout(time.Minute))
})

// The case of the exploration, on a real server: killed after every write.
// There are no nodes, so no Website gets ready.
func TestE2ESmoke(t *testing.T) {
	crd, err := os.ReadFile("../../deploy/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := e2e.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Apply(t.Context(), string(crd)); err != nil {
		t.Fatal(err)
	}
	c := lifeOfWebsites(t)
	c.Goal = nil
	c.Workload = []reconciletest.Step{
		reconciletest.Create(siteOf("shop", "one")), reconciletest.Create(secretOf("one", "first")),
		reconciletest.Delete("websites.web.homeostat.dev", "d/shop"),
	}
	live.Smoke(t, c, cluster.Config(), nil)
}
