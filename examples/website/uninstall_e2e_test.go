//go:build e2e

package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

// What the README says of an uninstallation, with a program that ends when its
// Deployment is deleted.
func TestE2EAnUninstallationLeavesNothing(t *testing.T) {
	g := NewWithT(t)
	root, err := filepath.Abs("../..")
	g.Expect(err).NotTo(HaveOccurred())
	cluster, err := e2e.Start(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cluster.Stop()).To(Succeed()) })
	tools := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(tools, "kubectl"), []byte(
		"#!/bin/sh\nexec "+filepath.Join(root, "bin", "controlplane")+" kubectl \"$@\"\n"), 0o755)).To(Succeed()) //nolint:gosec // it is run
	sh := func(line string) string {
		command := exec.CommandContext(t.Context(), "sh", "-ec", line)
		command.Dir = root
		command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig(), "PATH="+tools+":"+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
		return string(out)
	}
	sh("kubectl apply -k examples/website/deploy")
	sh("kubectl wait --for=condition=Established --timeout=1m crd/websites.web.homeostat.dev")
	program := runUntilUndeployed(t, cluster, filepath.Join(root, "examples", "website"))
	sh("kubectl apply -f examples/website/shop.yaml")
	sh("kubectl create namespace other && sed 's/namespace: default/namespace: other/' examples/website/shop.yaml | kubectl apply -f -")
	const finalizers = "kubectl get websites -A -o jsonpath='{.items[*].metadata.finalizers}'"
	g.Eventually(func() int { return strings.Count(sh(finalizers), "web.homeostat.dev") }, time.Minute).Should(Equal(2))

	sh(uninstallation(g))
	g.Expect(sh("kubectl get namespace website --ignore-not-found")).To(BeEmpty())
	g.Expect(sh("kubectl get crd websites.web.homeostat.dev --ignore-not-found")).To(BeEmpty())
	<-program
}

// uninstallation returns the commands of the README.
func uninstallation(g *WithT) string {
	text, err := os.ReadFile("README.md")
	g.Expect(err).NotTo(HaveOccurred())
	commands := regexp.MustCompile("(?s)```sh\n(kubectl delete [^`]*)```").FindStringSubmatch(string(text))
	g.Expect(commands).To(HaveLen(2))
	return commands[1]
}

// runUntilUndeployed runs the program as long as its Deployment is there. The
// channel is closed when it has ended.
func runUntilUndeployed(t *testing.T, cluster *e2e.Cluster, folder string) <-chan struct{} {
	t.Helper()
	g := NewWithT(t)
	binary := filepath.Join(t.TempDir(), "website")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Dir = folder
	out, err := build.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	log := &compile.Tail{}
	command := exec.CommandContext(ctx, binary, "--kubeconfig="+cluster.Kubeconfig(), "--listen-addr=", "--cdn="+t.TempDir())
	command.Stdout, command.Stderr = log, log
	g.Expect(command.Start()).To(Succeed())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // it is killed
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		t.Log(log.String())
	})
	client := kubernetes.NewForConfigOrDie(cluster.Config())
	go func() {
		for pace := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-pace.C {
			deployment, err := client.AppsV1().Deployments("website").Get(ctx, "website", metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && deployment.DeletionTimestamp != nil {
				stop()
			}
		}
	}()
	return ended
}
