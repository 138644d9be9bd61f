package supervisor_test

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/controlplane/supervisor"
)

func TestMain(m *testing.M) {
	if os.Getenv(supervisor.Lifeline) != "" {
		os.Exit(fakeComponent(os.Args[1], os.Args[2:])) //nolint:forbidigo // The specs check its status.
	}
	m.Run()
}

func TestSupervisor(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "supervisor")
}
