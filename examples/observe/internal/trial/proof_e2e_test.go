//go:build e2e

package trial_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const paths = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: paths.proof.example.net}
spec:
  group: proof.example.net
  names: {kind: Path, plural: paths, singular: path, shortNames: [pa]}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: &any {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    - {name: v1beta1, served: true, storage: false, schema: *any}
`

const path = `
apiVersion: proof.example.net/v1
kind: Path
metadata: {name: %s, namespace: %s}
`

// silence is an API whose own server does not answer.
const silence = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.silent.example.net}
spec:
  group: silent.example.net
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {namespace: default, name: none}
`

var pathsResource = schema.GroupVersionResource{Group: "proof.example.net", Version: "v1", Resource: "paths"}

// reset deletes a cluster-scoped object after the spec.
func reset(client dynamic.Interface, group, resource, name string) {
	DeferCleanup(func(ctx context.Context) {
		of := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
		Expect(of.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			return exec.CommandContext(ctx, binary, "hpa", "--once", "--listen-addr=",
				"--kubeconfig="+cluster.Kubeconfig()).Run()
		}, patience).Should(Succeed(), "short names have a meaning again")
	})
}

var _ = Describe("What proves nothing", Serial, func() {
	var client dynamic.Interface
	var ns, names string
	// known makes these the names that the outside knows.
	known := func(all ...string) {
		GinkgoHelper()
		text := ""
		for _, name := range all {
			text += ns + "/" + name + "\n"
		}
		next := names + ".next"
		Expect(os.WriteFile(next, []byte(text), 0o600)).To(Succeed())
		Expect(os.Rename(next, names)).To(Succeed())
	}
	// deleting are arguments by which the end of an object prints a line.
	deleting := func(resource string, args ...string) []string {
		return append([]string{
			resource, "-n", ns, "--names=cat", "--names=" + names, "--delete=echo", "--delete=removed",
		}, args...)
	}
	BeforeEach(func(ctx SpecContext) {
		client = dynamic.NewForConfigOrDie(cluster.Config())
		ns, names = namespace(ctx), filepath.Join(GinkgoT().TempDir(), "names")
		Expect(cluster.Apply(ctx, paths)).To(Succeed())
		reset(client, "apiextensions.k8s.io", "customresourcedefinitions", "paths.proof.example.net")
		Eventually(func() error {
			return cluster.Apply(ctx, fmt.Sprintf(path, "a", ns), fmt.Sprintf(path, "b", ns))
		}, patience).Should(Succeed())
	})

	It("is the silence of an API that may have the resource", func(ctx SpecContext) {
		known("theirs") // an object of the other API
		Expect(cluster.Apply(ctx, silence)).To(Succeed())
		reset(client, "apiregistration.k8s.io", "apiservices", "v1.silent.example.net")
		Eventually(func() string { return logs(observed(1, "things.silent.example.net", "--once")) }, patience).Should(
			ContainSubstring(`the server of silent.example.net/v1 does not answer`))
		for range starts {
			for _, name := range []string{"paths", "path", "pa"} {
				s := observed(1, deleting(name, "--once")...)
				Expect(logs(s)).To(And(ContainSubstring("the server of silent.example.net/v1 does not answer"),
					ContainSubstring("choose paths.v1.proof.example.net")), name)
				Expect(out(s)).To(BeEmpty())
			}
		}
		known("a", "b")
		s := observed(0, deleting("paths.proof.example.net", "--once")...)
		Expect(out(s)).NotTo(ContainSubstring("removed"), "they are alive")
	}, SpecTimeout(5*time.Minute))

	It("is a version that is not served", func(ctx SpecContext) {
		serve := func(served bool) {
			GinkgoHelper()
			_, err := client.Resource(schema.GroupVersionResource{
				Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
			}).Patch(ctx, "paths.proof.example.net", types.JSONPatchType,
				fmt.Appendf(nil, `[{"op":"replace","path":"/spec/versions/1/served","value":%v}]`, served), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		const beta = "paths.v1beta1.proof.example.net"
		known("a", "b")
		s := observe(deleting(beta, "--resync-period=1s", "--", "echo", "seen")...)
		Eventually(s.Out, patience).Should(gbytesSay("seen %s b\n", ns))
		serve(false)
		Eventually(func() string { return logs(observed(1, beta, "--once")) }, patience).Should(
			ContainSubstring("has no resource"))
		Eventually(s.Err, patience).Should(gbytesSay("could not find the requested resource"))
		known("a", "b", "ghost")
		Expect(client.Resource(pathsResource).Namespace(ns).Delete(ctx, "b", metav1.DeleteOptions{})).To(Succeed())
		for range starts {
			one := observe(deleting(beta, "--once")...)
			Eventually(one, patience).Should(gexec.Exit())
			Expect(out(one)).NotTo(ContainSubstring("removed"))
		}
		Expect(out(s)).NotTo(ContainSubstring("removed"))
		serve(true)
		Eventually(func() string { return out(s) }, patience).Should(And(
			ContainSubstring("removed %s b\n", ns), ContainSubstring("removed %s ghost\n", ns)))
		Expect(out(s)).NotTo(ContainSubstring("removed "+ns+" a\n"), "it is alive")
	}, SpecTimeout(5*time.Minute))
})
