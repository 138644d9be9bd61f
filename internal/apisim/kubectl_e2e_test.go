//go:build e2e

package apisim_test

import (
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

// kubectl runs against a simulated server behind a port.
type kubectl struct {
	t       *testing.T
	program string
	server  string
}

func (k *kubectl) run(stdin string, args ...string) string {
	k.t.Helper()
	args = append([]string{"kubectl", "--kubeconfig=/dev/null", "--cache-dir=" + k.t.TempDir(), "-s", k.server}, args...)
	cmd := exec.CommandContext(k.t.Context(), k.program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		k.t.Errorf("kubectl %s: %v", strings.Join(args[4:], " "), err)
	}
	return string(out)
}

func newKubectl(t *testing.T) *kubectl {
	t.Helper()
	g := gomega.NewWithT(t)
	program, err := compile.ControlPlane(t.Context(), t.Output())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	sim, err := apisim.New(&apisim.Options{Resources: customResources(), Lifecycle: true})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	return &kubectl{t: t, program: program, server: server.URL}
}

func TestE2EKubectl(t *testing.T) {
	g, k := gomega.NewWithT(t), newKubectl(t)
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "diff -u")

	deployment := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":` +
		`{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	g.Expect(k.run(deployment, "apply", "-f", "-")).To(gomega.ContainSubstring("deployment.apps/d created"))
	g.Expect(k.run(deployment, "apply", "-f", "-")).To(gomega.ContainSubstring("deployment.apps/d unchanged"))
	g.Expect(k.run(strings.Replace(deployment, `"i"`, `"j"`, 1), "apply", "-f", "-")).
		To(gomega.ContainSubstring("deployment.apps/d configured"))
	g.Expect(k.run(deployment, "apply", "--server-side", "--force-conflicts", "-f", "-")).
		To(gomega.ContainSubstring("deployment.apps/d serverside-applied"))
	g.Expect(k.run("", "get", "deploy", "d", "-o", "jsonpath={.spec.template.spec.containers[0].image}")).
		To(gomega.Equal("i"))
	g.Expect(k.run("", "get", "deployments,cm,widgets", "-A")).To(gomega.MatchRegexp(`default\s+d\s`))
	g.Expect(k.run("", "describe", "deployment", "d")).To(gomega.MatchRegexp(`Selector:\s+a=b`))
	g.Expect(k.run("", "explain", "deployment.spec.replicas")).To(gomega.ContainSubstring("Number of desired pods"))
	g.Expect(k.run("", "api-resources")).To(gomega.MatchRegexp(`widgets\s+sim.example.com/v1\s+true\s+Widget`))
	g.Expect(k.run("", "scale", "deployment", "d", "--replicas=3")).To(gomega.ContainSubstring("scaled"))
	g.Expect(k.run("", "label", "deployment", "d", "x=y")).To(gomega.ContainSubstring("labeled"))
	g.Expect(k.run("", "auth", "can-i", "create", "pods")).To(gomega.ContainSubstring("yes"))
	g.Expect(k.run("", "patch", "deployment", "d", "--subresource=status", "--type=merge", "-p",
		`{"status":{"conditions":[{"type":"Available","status":"True"}]}}`)).To(gomega.ContainSubstring("patched"))
	g.Expect(k.run("", "wait", "deployment/d", "--for=condition=Available", "--timeout=10s")).
		To(gomega.ContainSubstring("condition met"))

	widget := `{"apiVersion":"sim.example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1}}`
	g.Expect(k.run(widget, "apply", "-f", "-")).To(gomega.ContainSubstring("widget.sim.example.com/w created"))
	g.Expect(k.run(widget, "diff", "-f", "-")).To(gomega.BeEmpty())
	g.Expect(k.run("", "describe", "widget", "w")).To(gomega.MatchRegexp(`N:\s+1`))
	g.Expect(k.run("", "delete", "deployment/d", "widget/w")).To(gomega.And(
		gomega.ContainSubstring(`"d" deleted`), gomega.ContainSubstring(`"w" deleted`)))
	g.Expect(k.run("", "wait", "--for=delete", "deployment/d", "--timeout=10s")).NotTo(gomega.ContainSubstring("error"))
	g.Expect(k.run("", "create", "namespace", "x")).To(gomega.ContainSubstring("created"))
	g.Expect(k.run("", "create", "configmap", "c", "-n", "x", "--from-literal=a=b")).To(gomega.ContainSubstring("created"))
}

// TestE2EKubectlOfADay runs the other commands that people use every day to
// inspect objects and to change them.
func TestE2EKubectlOfADay(t *testing.T) {
	g, k := gomega.NewWithT(t), newKubectl(t)
	g.Expect(k.run("", "create", "deployment", "d", "--image=i", "--replicas=1")).To(gomega.ContainSubstring("created"))
	g.Expect(k.run("", "set", "image", "deployment/d", "i=j")).To(gomega.ContainSubstring("image updated"))
	for _, change := range [][]string{
		{"--type=json", "-p", `[{"op":"replace","path":"/spec/replicas","value":2}]`},
		{"--type=merge", "-p", `{"metadata":{"labels":{"x":"y"}}}`},
		{"-p", `{"spec":{"template":{"spec":{"containers":[{"name":"i","env":[{"name":"A","value":"1"}]}]}}}}`},
		{"--subresource=scale", "--type=merge", "-p", `{"spec":{"replicas":3}}`},
		{"--subresource=status", "--type=merge", "-p", `{"status":{"observedGeneration":5,"replicas":3,"updatedReplicas":3,` +
			`"readyReplicas":3,"availableReplicas":3}}`},
	} {
		g.Expect(k.run("", append([]string{"patch", "deployment", "d"}, change...)...)).To(gomega.ContainSubstring("patched"))
	}
	g.Expect(k.run("", "rollout", "status", "deployment/d", "--timeout=10s")).
		To(gomega.ContainSubstring("successfully rolled out"))
	g.Expect(k.run("", "get", "deploy", "-w", "--request-timeout=2s", "-o", "name")).
		To(gomega.ContainSubstring("deployment.apps/d"))
	g.Expect(k.run("", "annotate", "deployment", "d", "note=1")).To(gomega.ContainSubstring("annotated"))
	changed := strings.Replace(k.run("", "get", "deploy", "d", "-o", "json"), `"note": "1"`, `"note": "2"`, 1)
	g.Expect(k.run(changed, "replace", "-f", "-")).To(gomega.ContainSubstring("replaced"))
	g.Expect(k.run("", "rollout", "restart", "deployment/d")).To(gomega.ContainSubstring("restarted"))
	g.Expect(k.run("", "create", "sa", "s")).To(gomega.ContainSubstring("created"))
	g.Expect(k.run("", "create", "token", "s")).To(gomega.HavePrefix("apisim:default:s:"))
	g.Expect(k.run("", "auth", "can-i", "--list")).To(gomega.ContainSubstring("*.*"))
	g.Expect(k.run("", "delete", "deployments", "--all")).To(gomega.ContainSubstring(`"d" deleted`))
}
