package supervisor_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/homeostat/homeostat/internal/proof/controlplane/supervisor"
)

var _ = Describe("The data directory", func() {
	open := func(path string, port int) *supervisor.DataDir {
		GinkgoHelper()
		d, err := supervisor.OpenDataDir(path, port)
		Expect(err).NotTo(HaveOccurred())
		return d
	}

	It("is temporary without a path, and gone when closed", func() {
		d := open("", 0)
		Expect(d.Path()).To(BeADirectory())
		Expect(d.Close()).To(Succeed())
		Expect(d.Path()).NotTo(BeADirectory())
	})

	It("keeps its credentials and its ports", func() {
		path := filepath.Join(GinkgoT().TempDir(), "deep", "data")
		d := open(path, 0)
		server, before := d.Server(), read(path, "admin.kubeconfig")
		Expect(d.Close()).To(Succeed())

		d = open(path, 0)
		DeferCleanup(d.Close)
		Expect(d.Server()).To(Equal(server))
		Expect(read(path, "admin.kubeconfig")).To(Equal(before))
	})

	It("writes a kubeconfig that holds all that a client needs", func() {
		d := open("", 0)
		DeferCleanup(d.Close)
		var config struct {
			CurrentContext string `json:"current-context"`
			Contexts       []struct {
				Context struct{ Cluster, User string }
			}
			Clusters []struct {
				Name    string
				Cluster struct {
					Server string
					CA     []byte `json:"certificate-authority-data"`
				}
			}
			Users []struct {
				Name string
				User struct {
					Cert []byte `json:"client-certificate-data"`
					Key  []byte `json:"client-key-data"`
				}
			}
		}
		Expect(yaml.Unmarshal(read(d.Path(), "admin.kubeconfig"), &config)).To(Succeed())
		Expect(config.CurrentContext).To(Equal("controlplane"))
		Expect(config.Contexts[0].Context.Cluster).To(Equal(config.Clusters[0].Name))
		Expect(config.Contexts[0].Context.User).To(Equal(config.Users[0].Name))
		Expect(config.Clusters[0].Cluster.Server).To(Equal(d.Server()))
		Expect(config.Clusters[0].Cluster.CA).To(Equal(read(d.Path(), "pki/ca.crt")))
		Expect(config.Users[0].User.Cert).To(Equal(read(d.Path(), "pki/admin.crt")))
		Expect(config.Users[0].User.Key).To(Equal(read(d.Path(), "pki/admin.key")))
	})

	When("another control plane uses it", func() {
		It("says so", func() {
			path := GinkgoT().TempDir()
			DeferCleanup(open(path, 0).Close)
			_, err := supervisor.OpenDataDir(path, 0)
			Expect(err).To(MatchError(ContainSubstring(path + ": another control plane uses it")))
		})
	})

	When("its port is taken meanwhile", func() {
		It("says so, and takes a different one if asked to", func() {
			path := GinkgoT().TempDir()
			d := open(path, 0)
			server := strings.TrimPrefix(d.Server(), "https://")
			Expect(d.Close()).To(Succeed())
			l, err := net.Listen("tcp", server)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(l.Close)

			_, err = supervisor.OpenDataDir(path, 0)
			Expect(err).To(MatchError(ContainSubstring("is busy")))

			ports, err := supervisor.ChoosePorts(0)
			Expect(err).NotTo(HaveOccurred())
			d = open(path, ports[0])
			DeferCleanup(d.Close)
			Expect(d.Server()).NotTo(HaveSuffix(server))
			Expect(string(read(path, "admin.kubeconfig"))).To(ContainSubstring(d.Server()))
		})
	})

	When("it cannot be", func() {
		It("names the path", func() {
			file := filepath.Join(GinkgoT().TempDir(), "file")
			Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
			_, err := supervisor.OpenDataDir(filepath.Join(file, "data"), 0)
			Expect(err).To(MatchError(ContainSubstring("creating the data directory " + file)))
		})

		It("says which file of it is broken", func() {
			path := GinkgoT().TempDir()
			Expect(os.WriteFile(filepath.Join(path, "ports.json"), []byte("garbage"), 0o600)).To(Succeed())
			_, err := supervisor.OpenDataDir(path, 0)
			Expect(err).To(MatchError(ContainSubstring("ports.json: remove it to get new ports")))
		})
	})
})

var _ = Describe("The tail of a log", func() {
	It("has the last fifteen lines", func() {
		path := filepath.Join(GinkgoT().TempDir(), "log")
		text := strings.Repeat("early\n", 5000) + strings.Repeat("late\n", 15)
		Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		Expect(supervisor.Tail(path)).To(Equal(strings.TrimSpace(strings.Repeat("late\n", 15))))
	})

	It("says why it is not there", func() {
		Expect(supervisor.Tail("/nowhere/log")).To(ContainSubstring("no such file"))
	})
})
