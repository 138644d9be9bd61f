//go:build e2e

package patch_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

func TestE2ETheAccountOfAPodIsOneField(t *testing.T) {
	g := NewWithT(t)
	server, err := e2e.Start(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	namespace, err := server.Namespace(t.Context(), "accounts")
	g.Expect(err).NotTo(HaveOccurred())
	checkAccounts(t, server.Config(), namespace)
}
