//go:build e2e

package main_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

// The commands of "Replicas by load" in docs/operating.md, for a program that
// runs already.
var _ = DescribeTable("The overlay for the autoscaler, over an installation", func(ctx SpecContext, install string) {
	program, err := compile.ControlPlane(ctx, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	kubectl := func(input, line string) {
		GinkgoHelper()
		args := append([]string{"kubectl", "--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + name}, strings.Fields(line)...)
		command := exec.CommandContext(ctx, program, args...)
		command.Stdin = strings.NewReader(input)
		out, err := command.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", out)
	}
	deployments := cluster.User.AppsV1().Deployments(name)
	replicas := func(ctx context.Context) (int32, error) {
		deployment, err := deployments.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		return *deployment.Spec.Replicas, nil
	}
	remove := func(ctx context.Context) {
		GinkgoHelper()
		Expect(deployments.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		Expect(cluster.User.AutoscalingV2().HorizontalPodAutoscalers(name).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	}
	base, overlay := manifests(program, "deploy"), manifests(program, filepath.Join("overlays", "autoscaled"))
	const apply = "apply --server-side --force-conflicts -f -"

	kubectl(base, install)
	Expect(replicas(ctx)).To(BeEquivalentTo(3))
	kubectl(overlay, apply)
	Expect(replicas(ctx)).To(BeEquivalentTo(1), "the field goes with its owner, so the server sets its default")
	remove(ctx)

	kubectl(base, install)
	DeferCleanup(remove)
	kubectl("", "scale deployment "+name+" --replicas=4")
	for range 2 { // an upgrade applies the overlay again
		kubectl(overlay, apply)
		Expect(replicas(ctx)).To(BeEquivalentTo(4))
	}
},
	Entry("with kubectl apply", "apply -f -", SpecTimeout(2*time.Minute)),
	Entry("with kubectl apply --server-side", "apply --server-side --force-conflicts -f -", SpecTimeout(2*time.Minute)),
)
