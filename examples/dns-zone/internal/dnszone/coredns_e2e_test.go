//go:build e2e

package dnszone_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/homeostat/homeostat/internal/test/stage"
)

// A nameServer is a real CoreDNS with the shipped Corefile, except for the
// addresses and the path of the zone.
type nameServer struct{ dns, health, ready string }

// served starts a CoreDNS that serves a zone file until the end of the spec.
func served(ctx context.Context, zone string) nameServer {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	program := filepath.Join(dir, "coredns")
	build := exec.CommandContext(ctx, "go", "build", "-C", "../../../../internal/proof/coredns", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off") // a module outside of the workspace
	build.Stdout, build.Stderr = GinkgoWriter, GinkgoWriter
	Expect(build.Run()).To(Succeed())

	text, err := os.ReadFile("../../deploy/Corefile")
	Expect(err).NotTo(HaveOccurred())
	s := nameServer{dns: freeAddress(), health: freeAddress(), ready: freeAddress()}
	corefile := string(text)
	for _, r := range [][2]string{
		{"svc.example.com:1053 {", "svc.example.com:" + port(s.dns) + " {\n    bind 127.0.0.1"},
		{"/zone/db.svc.example.com", zone},
		{"health :8081", "health " + s.health},
		{"ready :8181", "ready " + s.ready},
	} {
		Expect(corefile).To(ContainSubstring(r[0]))
		corefile = strings.Replace(corefile, r[0], r[1], 1)
	}
	path := filepath.Join(dir, "Corefile")
	Expect(os.WriteFile(path, []byte(corefile), 0o600)).To(Succeed())
	session, err := gexec.Start(exec.Command(program, "-conf", path), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait(stage.Patience) })
	return s
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// resolver asks the server, by UDP or TCP.
func (s nameServer) resolver(network string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.dns)
	}}
}

// address returns the server's answer for a name: an address, or why there is
// none.
func (s nameServer) address(ctx context.Context, network, name string) string {
	addresses, err := s.resolver(network).LookupHost(ctx, name+".svc.example.com.")
	if failure, ok := err.(*net.DNSError); ok && failure.IsNotFound { //nolint:errorlint // LookupHost returns no other
		return "no such host"
	}
	if err != nil {
		return err.Error()
	}
	return strings.Join(addresses, " ")
}

func status(address string) func() (int, error) {
	return func() (int, error) {
		answer, err := http.Get("http://" + address)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		return answer.StatusCode, nil
	}
}

var _ = Describe("A real name server", func() {
	It("answers with the Services' addresses, as they come and go", func(ctx SpecContext) {
		s := &site{cluster.TemporaryNamespace(ctx), filepath.Join(GinkgoT().TempDir(), "db.svc.example.com")}
		server := served(ctx, s.path)
		Eventually(status(server.health+"/health"), stage.Patience).Should(Equal(200), "before there is a zone, too")
		Eventually(status(server.ready+"/ready"), stage.Patience).Should(Equal(200))
		s.create(ctx, "web")
		s.create(ctx, "db")
		addresses := s.services(ctx)

		session, err := gexec.Start(exec.Command(binary, "--kubeconfig="+stage.KubeconfigOf(cluster.Account), "--listen-addr=",
			"--zone="+s.path, "--skeleton=../../deploy/skeleton", "--origin=svc.example.com."), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait(stage.Patience) })
		for _, network := range []string{"udp", "tcp"} {
			for _, name := range []string{"web", "db"} {
				Eventually(ctx, func() string {
					return server.address(ctx, network, name+"."+s.namespace)
				}, stage.Patience).Should(Equal(addresses[name]), network)
			}
		}
		Expect(server.address(ctx, "udp", "ns")).To(Equal("192.0.2.1"), "the skeleton's")
		Expect(server.address(ctx, "udp", "none."+s.namespace)).To(Equal("no such host"))

		s.goes(ctx, "web")
		Eventually(ctx, func() string {
			return server.address(ctx, "udp", "web."+s.namespace)
		}, stage.Patience).Should(Equal("no such host"))
		Expect(server.address(ctx, "udp", "db."+s.namespace)).To(Equal(addresses["db"]))
	}, SpecTimeout(10*time.Minute)) // the first build of CoreDNS takes one
})

var _ = Describe("The shipped manifests", func() {
	It("lead from the Service to CoreDNS, whose probes the Corefile defines", func() {
		var deployment appsv1.Deployment
		var service corev1.Service
		for file, object := range map[string]any{"deployment.yaml": &deployment, "service.yaml": &service} {
			text, err := os.Open("../../deploy/" + file)
			Expect(err).NotTo(HaveOccurred())
			defer text.Close()
			Expect(yaml.NewYAMLOrJSONDecoder(text, 1<<10).Decode(object)).To(Succeed(), "the first document")
		}
		pod := deployment.Spec.Template
		for key, value := range service.Spec.Selector {
			Expect(pod.Labels).To(HaveKeyWithValue(key, value))
		}
		dns := pod.Spec.Containers[1]
		ports := map[string]string{}
		for _, p := range dns.Ports {
			ports[p.Name] = fmt.Sprintf("%d", p.ContainerPort)
		}
		for _, p := range service.Spec.Ports {
			Expect(p.Port).To(BeEquivalentTo(53))
			Expect(ports).To(HaveKeyWithValue(p.TargetPort.String(), "1053"))
		}
		corefile, err := os.ReadFile("../../deploy/Corefile")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(corefile)).To(And(
			ContainSubstring(":1053 {"),
			ContainSubstring("health :"+ports[dns.LivenessProbe.HTTPGet.Port.String()]+"\n"),
			ContainSubstring("ready :"+ports[dns.ReadinessProbe.HTTPGet.Port.String()]+"\n")))
	})
})
