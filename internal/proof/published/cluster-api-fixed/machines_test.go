package clusterapi_test

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/published/machines"
)

const leak = "goroutines that it started are still there"

// kubernetes-sigs/cluster-api#13487 is mended, where a controller has no cache
// of another package.
func TestNoGoroutineStays(t *testing.T) {
	gomega.NewWithT(t).Expect(explored(t, machines.Finalizer(running(sets))).Failure).To(gomega.BeEmpty())
}

// The MachineDeployment controller has one, of package ssa: its goroutine still
// does not end.
func TestAnotherGoroutineStays(t *testing.T) {
	r := explored(t, machines.Rollout(running(deployments)))
	gomega.NewWithT(t).Expect(r.Failure).To(gomega.ContainSubstring(leak))
}

// kubernetes-sigs/cluster-api#13649 is fixed: no single deviation brings a
// second MachineSet, except a restart with stale caches. Only the process
// remembers its writes, and only if it got the answer.
func TestOneMachineSet(t *testing.T) {
	g := gomega.NewWithT(t)
	r := explored(t, machines.Rollout(running(deployments)), leak, "caches that begin", ", and watch held back from")
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Covered()).To(gomega.BeTrue())
}

// Suspected, in this version: a lost answer and a slow watch together bring
// one.
func TestLostAnswer(t *testing.T) {
	r := explored(t, machines.Rollout(running(deployments)), leak, "caches that begin")
	gomega.NewWithT(t).Expect(r.Failure).To(gomega.And(gomega.HavePrefix("the reply is lost of call"),
		gomega.ContainSubstring("+ machinesets.cluster.x-k8s.io d/web-*2 = there")))
}

// kubernetes-sigs/cluster-api#13812 is mended, but for a Machine whose answer
// is lost.
func TestNoInfrastructureIsLeftBehind(t *testing.T) {
	g := gomega.NewWithT(t)
	r := explored(t, machines.Scale(running(machineSets)), leak, "caches that begin", "the reply is lost of", "timeout, and later")
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Covered()).To(gomega.BeTrue())
}

// Suspected, in this version: if the answer is lost, it deletes the
// infrastructure of a Machine that it has made.
func TestInfrastructureOfAMachineThatIsThere(t *testing.T) {
	r := explored(t, machines.Scale(running(machineSets)), leak)
	gomega.NewWithT(t).Expect(r.Failure).To(gomega.And(gomega.HavePrefix("the reply is lost of call"),
		gomega.ContainSubstring("- platforms.infrastructure.cluster.x-k8s.io")))
}
