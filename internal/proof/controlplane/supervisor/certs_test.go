package supervisor_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/controlplane/supervisor"
)

var _ = Describe("The certificates", func() {
	var dir string
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	BeforeEach(func() {
		dir = filepath.Join(GinkgoT().TempDir(), "pki")
		Expect(supervisor.WritePKI(dir, now)).To(Succeed())
	})

	verify := func(name, host string, usage x509.ExtKeyUsage) (*x509.Certificate, error) {
		roots := x509.NewCertPool()
		Expect(roots.AppendCertsFromPEM(read(dir, "ca.crt"))).To(BeTrue())
		pair, err := tls.X509KeyPair(read(dir, name+".crt"), read(dir, name+".key"))
		Expect(err).NotTo(HaveOccurred())
		_, err = pair.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, DNSName: host, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		return pair.Leaf, err
	}

	DescribeTable("serve under the names that clients use", func(host string) {
		_, err := verify("server", host, x509.ExtKeyUsageServerAuth)
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("loopback", "127.0.0.1"),
		Entry("localhost", "localhost"),
		Entry("the Service", "kubernetes.default.svc"),
		Entry("the Service's address", "10.0.0.1"),
	)

	It("do not serve under other names", func() {
		_, err := verify("server", "192.168.0.1", x509.ExtKeyUsageServerAuth)
		Expect(err).To(MatchError(ContainSubstring("not 192.168.0.1")))
	})

	DescribeTable("identify clients", func(name, user string, groups ...string) {
		cert, err := verify(name, "", x509.ExtKeyUsageClientAuth)
		Expect(err).NotTo(HaveOccurred())
		Expect(cert.Subject.CommonName).To(Equal(user))
		Expect(cert.Subject.Organization).To(HaveExactElements(groups))
	},
		Entry("the administrator", "admin", "kubernetes-admin", "system:masters"),
		Entry("the controller manager", "controller-manager", "system:kube-controller-manager", "system:masters"),
		Entry("the scheduler, whose rights RBAC knows", "scheduler", "system:kube-scheduler"),
	)

	It("are no servers when they are clients", func() {
		_, err := verify("admin", "", x509.ExtKeyUsageServerAuth)
		Expect(err).To(MatchError(ContainSubstring("incompatible key usage")))
	})

	It("are readable by their owner only, the folder too", func() {
		Expect(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			Expect(err).NotTo(HaveOccurred())
			info, err := d.Info()
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode().Perm()&0o077).To(BeZero(), path)
			return nil
		})).To(Succeed())
		Expect(dir + ".partial").NotTo(BeADirectory())
	})

	It("replace a folder that was not finished", func() {
		dir = filepath.Join(GinkgoT().TempDir(), "pki")
		Expect(os.MkdirAll(dir+".partial", 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir+".partial", "rest"), nil, 0o600)).To(Succeed())
		Expect(supervisor.WritePKI(dir, now)).To(Succeed())
		Expect(filepath.Join(dir, "rest")).NotTo(BeAnExistingFile())
	})
})

func read(dir, name string) []byte {
	GinkgoHelper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	Expect(err).NotTo(HaveOccurred())
	return data
}
