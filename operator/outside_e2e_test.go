//go:build e2e

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
)

// onServer is how long something may take on the real server.
const onServer = 3 * time.Minute

var (
	gadgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
)

const gadgetDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets, singular: gadget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// TestE2EOutside is about what changes outside of a program while it runs.
func TestE2EOutside(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	server, err := e2e.Start(ctx, &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	t.Run("a kind that is installed later, removed, and installed again", func(t *testing.T) { kindInstalledLater(ctx, t, server) })
	t.Run("a kubeconfig that is replaced", func(t *testing.T) { kubeconfigReplaced(ctx, t, server) })
	t.Run("dead clusters beside a living one", func(t *testing.T) { deadClusters(t, server) })
}

// gadgetController reports the Gadgets that it reconciles, and those that were
// deleted.
func gadgetController(env operator.Env, ran chan<- string) ([]*reconcile.Controller, error) {
	in := informer.For(informer.Untyped(env.Cluster.Dynamic().Resource(gadgets)), &informer.Options{Kind: "Gadget"})
	c, err := reconcile.New("gadgets", in, reconcile.Func[*unstructured.Unstructured](
		func(_ context.Context, r reconcile.Request[*unstructured.Unstructured]) (reconcile.Result, error) {
			what := "deleted "
			if _, ok := r.Object(); ok {
				what = "gadget "
			}
			ran <- what + r.Key.Name
			return reconcile.Result{}, nil
		}), &reconcile.Options{Optional: true})
	home, made := podController(func() { ran <- "home" })
	return append(home, c), errors.Join(err, made)
}

func kindInstalledLater(ctx context.Context, t *testing.T, server *e2e.Cluster) {
	g := NewWithT(t)
	client := dynamic.NewForConfigOrDie(server.Config())
	r := runs(t, operator.Program{}, gadgetController, "--kubeconfig="+server.Kubeconfig())
	g.Eventually(r.ran, onServer).Should(Receive(Equal("home")))
	g.Eventually(r.readyz, onServer).Should(And(HavePrefix("200 "), ContainSubstring("[!] controller/gadgets: it waits for the cache of gadgets")))
	uids := map[string]bool{}
	for _, name := range []string{"first", "second"} {
		g.Expect(server.Apply(ctx, gadgetDefinition)).To(Succeed())
		definition, err := client.Resource(definitions).Get(ctx, "gadgets.example.com", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		uids[string(definition.GetUID())] = true
		g.Expect(server.Apply(ctx, fmt.Sprintf("{apiVersion: example.com/v1, kind: Gadget, metadata: {name: %s}}", name))).To(Succeed())
		g.Eventually(r.ran, onServer).Should(Receive(Equal("gadget " + name)))
		g.Eventually(r.readyz, onServer).Should(And(HavePrefix("200 "), Not(ContainSubstring("gadgets"))))
		g.Expect(client.Resource(definitions).Delete(ctx, "gadgets.example.com", metav1.DeleteOptions{})).To(Succeed())
		g.Eventually(r.ran, onServer).Should(Receive(Equal("deleted " + name)))
		g.Eventually(func() error {
			_, err := client.Resource(definitions).Get(ctx, "gadgets.example.com", metav1.GetOptions{})
			return err
		}, onServer).ShouldNot(Succeed())
	}
	g.Expect(uids).To(HaveLen(2), "another CustomResourceDefinition of that name")
}

// kubeconfigWith writes a kubeconfig of the server with the credentials of
// config, in the file that is given, and with its token beside it if outside is
// true.
func kubeconfigWith(g *WithT, file string, config *rest.Config, outside bool) {
	user := &clientcmdapi.AuthInfo{
		Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		ClientCertificate: config.CertFile, ClientKey: config.KeyFile,
	}
	if outside {
		user.Token, user.TokenFile = "", file+".token"
		write(g, user.TokenFile, config.BearerToken)
	}
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": user},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	g.Expect(err).NotTo(HaveOccurred())
	write(g, file, string(text))
}

// kubeconfigReplaced deletes the account of a program and gives the program a
// new account, and then a certificate. The controller of ConfigMaps writes with
// the credentials that it has.
func kubeconfigReplaced(ctx context.Context, t *testing.T, server *e2e.Cluster) {
	for name, outside := range map[string]bool{"inline": false, "a file of its own": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			namespace, err := server.Namespace(ctx, "login")
			g.Expect(err).NotTo(HaveOccurred())
			account := func(name string) *rest.Config {
				config, err := server.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: namespace, Name: name, Rules: []rbacv1.PolicyRule{{
					APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch", "update"},
				}}})
				g.Expect(err).NotTo(HaveOccurred())
				return config
			}
			file, one, two := filepath.Join(t.TempDir(), "config"), account("one"), account("two")
			kubeconfigWith(g, file, one, outside)
			r := runs(t, operator.Program{}, func(env operator.Env, ran chan<- string) ([]*reconcile.Controller, error) {
				maps := env.Cluster.Client().CoreV1().ConfigMaps(namespace)
				options := &reconcile.Options{Backoff: queue.Backoff{Cap: time.Second}} // or the next attempt is minutes away
				c, err := reconcile.New("maps", informer.For(maps, nil), reconcile.Func[*corev1.ConfigMap](
					func(ctx context.Context, q reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
						if object, ok := q.Object(); ok && object.Labels["seen"] == "" && object.Labels["test"] != "" {
							object = object.DeepCopy()
							object.Labels["seen"] = "yes"
							_, err := maps.Update(ctx, object, metav1.UpdateOptions{})
							if err == nil {
								ran <- q.Key.Name
							}
							return reconcile.Result{}, err
						}
						return reconcile.Result{}, nil
					}), options)
				return []*reconcile.Controller{c}, err
			}, "--kubeconfig="+file)
			admin := kubernetes.NewForConfigOrDie(server.Config()).CoreV1()
			create := func(name string) {
				_, err := admin.ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "yes"}},
				}, metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
			}
			remove := func(name string, of *rest.Config) {
				g.Expect(admin.ServiceAccounts(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
				g.Eventually(func() error {
					_, err := kubernetes.NewForConfigOrDie(of).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
					return err
				}, onServer).Should(Satisfy(apierrors.IsUnauthorized))
			}
			create("first")
			g.Eventually(r.ran, onServer).Should(Receive(Equal("first")))
			remove("one", one)
			create("second")
			g.Consistently(r.ran, "2s").ShouldNot(Receive(), "nobody knows the account")
			kubeconfigWith(g, file, two, outside)
			g.Eventually(r.ran, onServer).Should(Receive(Equal("second")))
			remove("two", two)
			create("third")
			g.Consistently(r.ran, "2s").ShouldNot(Receive(), "nobody knows the account")
			kubeconfigWith(g, file, server.Config(), false)
			g.Eventually(r.ran, onServer).Should(Receive(Equal("third")))
			g.Eventually(r.readyz, onServer).Should(Equal("200 OK ok\n"))
		})
	}
}

func deadClusters(t *testing.T, server *e2e.Cluster) {
	g := NewWithT(t)
	hole, _ := blackHole(t)
	later, address := filepath.Join(t.TempDir(), "later"), freeAddress(g)
	die := alive(t, address)
	r := runs(t, operator.Program{
		Clusters: []operator.Cluster{
			{Name: "closed", Optional: true},
			{Name: "hole", Optional: true},
			{Name: "later", Optional: true},
			{Name: "mortal"},
		},
		Needs: []string{"list,watch namespaces", "list,watch namespaces on closed", "list,watch namespaces on hole", "list,watch namespaces on later"},
	}, func(env operator.Env, ran chan<- string) ([]*reconcile.Controller, error) {
		home, err := namespaceController("home", env.Cluster, env.Options(), ran)
		all, failed := homeAndEdge(env, ran)
		return append(all, home), errors.Join(err, failed)
	}, "--kubeconfig="+server.Kubeconfig(), "--closed-kubeconfig="+kubeconfigOf(t, "http://127.0.0.1:1"),
		"--hole-kubeconfig="+kubeconfigOf(t, hole), "--later-kubeconfig="+later,
		"--mortal-kubeconfig="+kubeconfigOf(t, "http://"+address))
	g.Eventually(r.ran, onServer).Should(Receive(Equal("home kube-system")))
	g.Eventually(r.readyz, onServer).Should(And(HavePrefix("200 "), Not(ContainSubstring("/mortal: ")),
		ContainSubstring("[!] cluster/closed: "), ContainSubstring("[!] cluster/hole: "), ContainSubstring("[!] cluster/later: ")))
	text, err := os.ReadFile(server.Kubeconfig())
	g.Expect(err).NotTo(HaveOccurred())
	write(g, later, string(text))
	g.Eventually(r.ran, onServer).Should(Receive(Equal("later kube-system")), "the kubeconfig came")
	g.Eventually(r.readyz, onServer).ShouldNot(ContainSubstring("/later: "))
	die()
	g.Eventually(r.readyz, onServer).Should(And(HavePrefix("200 "),
		ContainSubstring("[!] cluster/mortal: the API server at http://"+address+" does not answer: ")))
}
