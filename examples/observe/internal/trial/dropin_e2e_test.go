//go:build e2e

package trial_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// starts is how often a result that must be the same at each start is tried.
const starts = 10

var _ = Describe("A name of a resource", func() {
	It("means the version that the server prefers, at each start", func() {
		for range starts {
			s := observed(0, "hpa", "--once", "-v=1")
			Expect(logs(s)).To(ContainSubstring("observing resource=autoscaling/v2, Resource=horizontalpodautoscalers"))
		}
	})

	It("is an error that lists the choices if it means two groups' resources", func(ctx SpecContext) {
		for _, group := range []string{"a.example.net", "b.example.net"} {
			Expect(cluster.Apply(ctx, fmt.Sprintf(twins, group))).To(Succeed())
		}
		Eventually(func() string {
			return logs(observed(0, "twins.b.example.net", "--once", "--wait"))
		}, patience).Should(ContainSubstring("Nothing to sync"))
		Eventually(func() string {
			return logs(observed(0, "twins.a.example.net", "--once", "--wait"))
		}, patience).Should(ContainSubstring("Nothing to sync"))
		for range starts {
			s := observed(1, "twins", "--once", "--names=echo", "--names=default/gone", "--delete=echo")
			Expect(logs(s)).To(Equal(`error: resource "twins" is ambiguous: ` +
				"choose twins.v1.a.example.net or twins.v1.b.example.net\n"))
			Expect(out(s)).To(BeEmpty())
		}
	}, SpecTimeout(3*time.Minute))
})

const twins = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: twins.%[1]s}
spec:
  group: %[1]s
  names: {kind: Twin, plural: twins, singular: twin}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

var _ = Describe("Output", func() {
	It("is not lost if its reader pauses", func() {
		reader, writer, err := os.Pipe()
		Expect(err).NotTo(HaveOccurred())
		defer reader.Close()
		c := command(cluster.Kubeconfig(), binary, "services", "--once", "-q", "--", "sh", "-c", "seq 22000")
		c.Stdout, c.Stderr = writer, GinkgoWriter
		Expect(c.Start()).To(Succeed())
		Expect(writer.Close()).To(Succeed())
		lines := bufio.NewScanner(reader)
		Expect(lines.Scan()).To(BeTrue())
		<-time.After(5 * time.Second)
		count := 1
		for lines.Scan() {
			count++
		}
		Expect(c.Wait()).To(Succeed())
		Expect(count).To(Equal(22000))
	})

	It("ends the process with an error if it cannot be written", func() {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		Expect(err).NotTo(HaveOccurred())
		defer full.Close()
		var stderr strings.Builder
		c := command(cluster.Kubeconfig(), binary, "services", "--listen-addr=", "--", "echo", "hello")
		c.Stdout, c.Stderr = full, &stderr
		Expect(c.Run()).NotTo(Succeed())
		Expect(c.ProcessState.ExitCode()).To(Equal(1))
		Expect(stderr.String()).To(ContainSubstring("error: writing to standard output: write /dev/stdout: no space left on device"))
	})
})

var _ = Describe("What oc observe has", func() {
	It("answers /healthz", func() {
		address := freeAddress()
		s := observe("services", "--listen-addr="+address)
		Eventually(s.Out, patience).Should(gbytesSay("Sync ended"))
		Eventually(answerOf(address, "/healthz"), patience).Should(Equal("200 ok"))
	})

	It("takes kubectl's connection flags", func(ctx SpecContext) {
		ns := namespace(ctx)
		account, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: ns, Name: "reader", Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
		}})
		Expect(err).NotTo(HaveOccurred())
		none := GinkgoT().TempDir() + "/none"
		ca := kubeconfigOf(account) + ".ca"
		Expect(os.WriteFile(ca, account.CAData, 0o600)).To(Succeed())
		s := started(command(none, binary, "services", "-n", ns, "--once", "--server="+account.Host,
			"--token="+account.BearerToken, "--certificate-authority="+ca, "--request-timeout=1m"))
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(logs(s)).To(ContainSubstring("Nothing to sync"))

		user := "system:serviceaccount:" + ns + ":reader"
		Expect(logs(observed(0, "services", "-n", ns, "--once", "--as="+user))).To(ContainSubstring("Nothing to sync"))
		Expect(logs(observed(1, "services", "-n", "default", "--once", "--as="+user))).To(
			ContainSubstring(`User "` + user + `" cannot list`))
	}, SpecTimeout(2*time.Minute))

	It("runs --delete for an object that lost its label, once it is deleted", func(ctx SpecContext) {
		ns := namespace(ctx)
		service(ctx, ns, "a")
		services := user.CoreV1().Services(ns)
		label := func(patch string) {
			GinkgoHelper()
			_, err := services.Patch(ctx, "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		label(`{"metadata":{"labels":{"app":"web"}}}`)
		s := observe("services", "-n", ns, "-l", "app=web", "--delete=echo", "--delete=remove", "--", "echo", "seen")
		Eventually(s.Out, patience).Should(gbytesSay("seen %s a\n", ns))
		label(`{"metadata":{"labels":null}}`)
		Eventually(s.Err, patience).Should(gbytesSay("not reconciling a key"))
		removeService(ctx, ns, "a")
		Eventually(s.Out, patience).Should(gbytesSay("remove %s a\n", ns))
	}, SpecTimeout(2*time.Minute))
})
