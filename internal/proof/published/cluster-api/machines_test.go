package clusterapi_test

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/published/machines"
)

const leak = "goroutines that it started are still there"

// kubernetes-sigs/cluster-api#13487: every controller has a cache whose
// goroutine does not end with the manager.
func TestGoroutineThatStays(t *testing.T) {
	r := explored(t, machines.Finalizer(running(sets)))
	gomega.NewWithT(t).Expect(r.Failure).To(gomega.ContainSubstring(leak))
}

// kubernetes-sigs/cluster-api#13649: when its cache is more than ten seconds
// late, it makes a second MachineSet.
func TestMachineSetThatTheCacheDoesNotHave(t *testing.T) {
	r := explored(t, machines.Rollout(running(deployments)), leak)
	gomega.NewWithT(t).Expect(r.Failure).To(gomega.And(
		gomega.HavePrefix("watch held back from delivery"), gomega.ContainSubstring("+ machinesets.cluster.x-k8s.io d/web-*2 = there")))
}

// kubernetes-sigs/cluster-api#13812: the objects that it has made for a Machine
// are left behind if it ends before it creates the Machine.
func TestInfrastructureThatIsLeftBehind(t *testing.T) {
	r := explored(t, machines.Scale(running(machineSets)), leak)
	gomega.NewWithT(t).Expect(r.Failure).To(gomega.ContainSubstring("+ platforms.infrastructure.cluster.x-k8s.io"))
}

// kubernetes-sigs/cluster-api#13737: when its cache is more than ten seconds
// late, it makes a second Machine.
func TestMachineThatTheCacheDoesNotHave(t *testing.T) {
	r := explored(t, machines.Scale(running(machineSets)), leak, "crash after", "crash before", "the reply is lost of")
	gomega.NewWithT(t).Expect(r.Failure).To(gomega.And(
		gomega.HavePrefix("watch held back from delivery"), gomega.ContainSubstring("+ machines.cluster.x-k8s.io")))
}
