package stage

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/operator"
)

// Patience is how long a spec waits for a step. No step takes that long, even
// on a busy machine.
const Patience = time.Minute

// Cluster is a control plane with the manifests of one example, for one suite.
type Cluster struct {
	*e2e.Cluster
	// User is the administrator.
	User kubernetes.Interface
	// Account is the example's ServiceAccount, with the permissions that the
	// example ships.
	Account *rest.Config
}

// Open starts a control plane that runs until the end of the suite.
func Open(ctx context.Context, o *e2e.Options) *Cluster {
	ginkgo.GinkgoHelper()
	var options e2e.Options
	if o != nil {
		options = *o
	}
	options.Progress = ginkgo.GinkgoWriter
	cluster, err := e2e.Start(ctx, &options)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func() { gomega.Expect(cluster.Stop()).To(gomega.Succeed()) })
	user, err := kubernetes.NewForConfig(cluster.Config())
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return &Cluster{Cluster: cluster, User: user}
}

// Deploy applies the manifests in deploy, the folder of the named example,
// except for its workloads. It waits until the example's ServiceAccount has its
// permissions.
func (c *Cluster) Deploy(ctx context.Context, name, deploy string) {
	ginkgo.GinkgoHelper()
	for _, file := range []string{"crd.yaml", "namespace.yaml", "rbac.yaml"} {
		manifest, err := os.ReadFile(filepath.Join(deploy, file))
		if file == "crd.yaml" && os.IsNotExist(err) {
			continue
		}
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(c.Apply(ctx, string(manifest))).To(gomega.Succeed())
	}
	var err error
	c.Account, err = c.As(ctx, name, name)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	rules, err := Rules(deploy)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	client, err := kubernetes.NewForConfig(c.Account)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	rule := rules[0] // the server learns of a role as a whole
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
		},
	}}
	gomega.Eventually(ctx, func(ctx context.Context) (bool, error) {
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}, Patience).Should(gomega.BeTrue())
}

// Start runs a controller with the identity in user until it is stopped or the
// spec ends. Its requests pass through tap.
func (c *Cluster) Start(user *rest.Config, tap *wiretap.Tap, make Maker) *Run {
	ginkgo.GinkgoHelper()
	ctx := context.Background() // the controller outlives the Ginkgo node that starts it
	config := tap.Config(user)
	reached := Reach(config)
	recorder, stopEvents, err := operator.Recorder(ctx, reached, "test")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	controller, err := make(operator.Env{Cluster: reached, Events: recorder})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	stopped := false
	run := start(ctx, controller, tap, func() { stopped = true; stopEvents() })
	ginkgo.DeferCleanup(func() {
		if !stopped {
			gomega.Expect(run.Stop()).To(gomega.Succeed())
		}
	})
	return run
}

// TemporaryNamespace creates a namespace and returns its name. The namespace is
// deleted at the end of the spec.
func (c *Cluster) TemporaryNamespace(ctx context.Context) string {
	ginkgo.GinkgoHelper()
	name, err := c.Namespace(ctx, "test")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) {
		gomega.Expect(c.User.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})).To(gomega.Succeed())
	})
	return name
}

// KubeconfigOf writes a kubeconfig file with the token of an account, and
// returns its path. The file is removed at the end of the spec.
func KubeconfigOf(account *rest.Config) string {
	ginkgo.GinkgoHelper()
	path := filepath.Join(ginkgo.GinkgoT().TempDir(), "kubeconfig")
	gomega.Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: account.Host, CertificateAuthorityData: account.CAData, CertificateAuthority: account.CAFile,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: account.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path)).To(gomega.Succeed())
	return path
}
