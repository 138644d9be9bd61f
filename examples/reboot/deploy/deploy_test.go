package deploy_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/deploy"
)

// agents returns the DaemonSet as it is, or with the component signal.
func agents(t *testing.T, signal bool) corev1.PodSpec {
	g := NewWithT(t)
	set, err := yaml.YAMLToJSONStrict([]byte(deploy.Manifest("daemonset.yaml")))
	g.Expect(err).NotTo(HaveOccurred())
	if signal {
		patch, err := yaml.YAMLToJSONStrict([]byte(deploy.Manifest("signal/daemonset.yaml")))
		g.Expect(err).NotTo(HaveOccurred())
		set, err = strategicpatch.StrategicMergePatch(set, patch, appsv1.DaemonSet{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	var d appsv1.DaemonSet
	g.Expect(json.Unmarshal(set, &d)).To(Succeed())
	return d.Spec.Template.Spec
}

// mounts are the paths of volumes that a container sees, and whether it may
// write them.
func mounts(pod corev1.PodSpec, container corev1.Container) map[string]bool {
	all := map[string]bool{}
	for _, m := range container.VolumeMounts {
		for _, v := range pod.Volumes {
			if v.Name == m.Name && v.HostPath != nil {
				all["host:"+v.HostPath.Path] = !m.ReadOnly
			} else if v.Name == m.Name {
				all[v.Name] = !m.ReadOnly
			}
		}
	}
	return all
}

func TestTheAgentHasTheLeastPrivilegesOfItsMethod(t *testing.T) {
	for name, c := range map[string]struct {
		signal  bool
		hostPID bool
		mounts  map[string]bool
		method  string
	}{
		"logind": {false, false, map[string]bool{"host:/run/dbus": false, "sentinel": false}, "--reboot-method=logind"},
		"signal": {true, true, map[string]bool{"sentinel": false}, "--reboot-method=signal"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pod := agents(t, c.signal)
			g.Expect(pod.HostPID).To(Equal(c.hostPID))
			g.Expect(pod.HostNetwork).To(BeFalse())
			g.Expect(pod.HostIPC).To(BeFalse())
			agent := pod.Containers[0]
			g.Expect(agent.Args).To(ContainElements(c.method, "--reboot-sentinel=/sentinel/reboot-required"))
			g.Expect(mounts(pod, agent)).To(Equal(c.mounts))
			g.Expect(agent.SecurityContext.RunAsUser).To(HaveValue(BeZero()))
			for _, container := range append(pod.InitContainers, agent) {
				g.Expect(container.SecurityContext).To(PointTo(MatchFields(IgnoreExtras, Fields{
					"Privileged":               BeNil(),
					"AllowPrivilegeEscalation": HaveValue(BeFalse()),
					"ReadOnlyRootFilesystem":   HaveValue(BeTrue()),
					"Capabilities":             HaveValue(Equal(corev1.Capabilities{Drop: []corev1.Capability{"ALL"}})),
				})), container.Name)
			}
			g.Expect(pod.Volumes).To(HaveLen(len(c.mounts)+1), "no volume is unused")
		})
	}
}

// A container that sees /run, with the sockets of the container runtime, is not
// user 0.
func TestOnlyAUserWithoutRightsSeesTheHostsRun(t *testing.T) {
	g := NewWithT(t)
	pod := agents(t, false)
	g.Expect(pod.InitContainers).To(HaveLen(1))
	sentinel := pod.InitContainers[0]
	g.Expect(sentinel.RestartPolicy).To(HaveValue(Equal(corev1.ContainerRestartPolicyAlways)))
	g.Expect(sentinel.Args).To(Equal([]string{
		"mirror", "--from=/host/run/reboot-required", "--to=/sentinel/reboot-required",
	}))
	g.Expect(mounts(pod, sentinel)).To(Equal(map[string]bool{"host:/run": false, "sentinel": true}))
	g.Expect(sentinel.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
	g.Expect(sentinel.SecurityContext.RunAsUser).To(HaveValue(BeNumerically(">", 0)))
}

// The README's first commands create a group, and people copy them.
func TestTheGroupOfTheREADMEIsValid(t *testing.T) {
	g := NewWithT(t)
	readme, err := os.ReadFile("../README.md")
	g.Expect(err).NotTo(HaveOccurred())
	_, rest, begins := strings.Cut(string(readme), "kubectl apply -f - <<EOF\n")
	g.Expect(begins).To(BeTrue())
	text, _, ends := strings.Cut(strings.ReplaceAll(rest, "\n    ", "\n"), "\nEOF\nkubectl apply -k examples/reboot/deploy\n")
	g.Expect(ends).To(BeTrue())
	var group api.RebootGroup
	g.Expect(yaml.UnmarshalStrict([]byte(strings.TrimPrefix(text, "    ")), &group)).To(Succeed())
	g.Expect(group.Spec).To(Equal(api.RebootGroupSpec{
		NodeSelector:   &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}},
		MaxUnavailable: intstr.FromString("10%"), Paused: true, MinReadySeconds: 30,
		Windows:    []api.Window{{Days: []string{"Sat", "Sun"}, Start: "22:00", End: "06:00", TimeZone: "Europe/Berlin"}},
		Drain:      api.Drain{Policy: "abort", TimeoutSeconds: 600, RetrySeconds: 1800},
		MaxReboots: api.MaxReboots{Count: 3, Hours: 24},
	}))
}
