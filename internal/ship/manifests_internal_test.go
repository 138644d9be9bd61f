package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"
)

const root = "../.."

// installed are the objects of one install.yaml that client-go knows.
type installed struct {
	*testing.T
	workloads []workload
	budgets   []*policyv1.PodDisruptionBudget
	policies  []*networkingv1.NetworkPolicy
	services  []*corev1.Service
	spaces    []*corev1.Namespace
	classes   []*schedulingv1.PriorityClass
	roles     []*rbacv1.ClusterRole
	kinds     []customKind
}

// customKind has the fields of a CustomResourceDefinition that matter here.
type customKind struct {
	Kind string
	Spec struct {
		Group, Scope string
		Names        struct{ Plural string }
	}
}

// workload is a Deployment or a DaemonSet.
type workload struct {
	name     string
	replicas int32
	pod      corev1.PodTemplateSpec
}

func load(t *testing.T, file string) installed {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := installed{T: t}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		if runtime.IsNotRegisteredError(err) { // of another API
			var kind customKind
			if err := sigsyaml.Unmarshal(raw.Raw, &kind); err != nil || kind.Kind != "CustomResourceDefinition" {
				t.Fatalf("%s: a %s, %v: want nothing but what client-go knows, and CustomResourceDefinitions", file, kind.Kind, err)
			}
			all.kinds = append(all.kinds, kind)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		switch o := object.(type) {
		case *appsv1.Deployment:
			all.workloads = append(all.workloads, workload{o.Name, *o.Spec.Replicas, o.Spec.Template})
		case *appsv1.DaemonSet:
			all.workloads = append(all.workloads, workload{o.Name, 1, o.Spec.Template})
		case *policyv1.PodDisruptionBudget:
			all.budgets = append(all.budgets, o)
		case *networkingv1.NetworkPolicy:
			all.policies = append(all.policies, o)
		case *corev1.Service:
			all.services = append(all.services, o)
		case *corev1.Namespace:
			all.spaces = append(all.spaces, o)
		case *schedulingv1.PriorityClass:
			all.classes = append(all.classes, o)
		case *rbacv1.ClusterRole:
			all.roles = append(all.roles, o)
		}
	}
}

func TestEveryProgramIsDeployedAsItShould(t *testing.T) {
	files, err := filepath.Glob(root + "/examples/*/deploy/install.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %d manifests: %v", len(files), err)
	}
	deployed := map[string]bool{}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(file))), func(t *testing.T) {
			all := load(t, file)
			if len(all.workloads) == 0 {
				t.Error("nothing runs")
			}
			all.securesItsNamespace()
			all.hasRolesForUsers()
			for _, w := range all.workloads {
				all.check(w)
				for _, c := range w.pod.Spec.Containers {
					image, ours := strings.CutPrefix(c.Image, "ghcr.io/homeostat/")
					name, _, _ := strings.Cut(image, ":")
					deployed[name] = true
					if ours && !slices.Contains(programs, name) {
						t.Errorf("%s gets no image: add it to programs in main.go", name)
					}
				}
			}
		})
	}
	for _, program := range programs {
		if !deployed[program] {
			t.Errorf("no manifest deploys %s", program)
		}
	}
}

// securesItsNamespace: the agents of the reboot operator reach their host, and
// nothing else does.
func (all installed) securesItsNamespace() {
	all.Helper()
	want := "restricted"
	if strings.HasSuffix(all.Name(), "/reboot") {
		want = "privileged"
	}
	if len(all.spaces) != 1 || all.spaces[0].Labels["pod-security.kubernetes.io/enforce"] != want {
		all.Errorf("%d namespaces, want one for Pods that are %s: %v", len(all.spaces), want, all.spaces)
	}
}

// hasRolesForUsers: users who may view or edit a namespace may do so with its
// custom resources. Those that have no namespace are edited with a role that an
// administrator binds.
func (all installed) hasRolesForUsers() {
	all.Helper()
	for _, kind := range all.kinds {
		allowed := map[string]bool{}
		for _, role := range all.roles {
			for _, to := range []string{"view", "edit"} {
				if role.Labels["rbac.authorization.k8s.io/aggregate-to-"+to] != "true" &&
					(kind.Spec.Scope != "Cluster" || role.Name != path.Base(all.Name())+"-"+to) {
					continue
				}
				for _, rule := range role.Rules {
					for _, verb := range rule.Verbs {
						if slices.Contains(rule.APIGroups, kind.Spec.Group) && slices.Contains(rule.Resources, kind.Spec.Names.Plural) {
							allowed[to+" "+verb] = true
						}
					}
				}
			}
		}
		for _, want := range []string{
			"view get", "view list", "view watch", "edit create", "edit update", "edit patch", "edit delete",
		} {
			if !allowed[want] {
				all.Errorf("%s: no role for users lets them %s", kind.Spec.Names.Plural, want)
			}
		}
	}
}

func (all installed) check(w workload) {
	all.Helper()
	all.runs(w)
	for _, c := range w.pod.Spec.Containers {
		if !regexp.MustCompile(`^[a-z0-9./-]+:v[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(c.Image) {
			all.Errorf("%s: image %s has no version", w.name, c.Image)
		}
		if c.StartupProbe == nil || c.LivenessProbe == nil || c.ReadinessProbe == nil {
			all.Errorf("%s: container %s lacks a probe", w.name, c.Name)
		}
		if c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
			all.Errorf("%s: container %s lacks resources", w.name, c.Name)
		}
		s := c.SecurityContext
		if s == nil || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || len(s.Capabilities.Drop) == 0 {
			all.Errorf("%s: container %s may do too much", w.name, c.Name)
		}
	}
	all.surrounds(w)
}

// runs: the Pod may do little, has time to end, and a place while nodes are
// drained if it has to.
func (all installed) runs(w workload) {
	all.Helper()
	pod := w.pod.Spec
	if s := pod.SecurityContext; s == nil || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		all.Errorf("%s: system calls are not restricted", w.name)
	}
	if w.name != "reboot-agent" && (pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot) {
		all.Errorf("%s: may run as root", w.name)
	}
	own := w.name == "set-owner" // whose grace is a flag, and which has to leave memory to its script
	if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace <= 30 && !own {
		all.Errorf("%s: is killed before its grace of 30 seconds is over", w.name)
	}
	limited := slices.ContainsFunc(pod.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	if own && !limited { // others read the limit of their container
		all.Errorf("%s: no GOMEMLIMIT", w.name)
	}
	if strings.HasPrefix(w.name, "reboot-") {
		if class := pod.PriorityClassName; class != "system-node-critical" &&
			!slices.ContainsFunc(all.classes, func(c *schedulingv1.PriorityClass) bool { return c.Name == class }) {
			all.Errorf("%s: its priority class %q does not exist", w.name, class)
		}
	}
}

// surrounds: the objects that a workload needs beside it.
func (all installed) surrounds(w workload) {
	all.Helper()
	name := w.pod.Labels["app.kubernetes.io/name"]
	if w.replicas > 1 {
		if len(w.pod.Spec.TopologySpreadConstraints) == 0 {
			all.Errorf("%s: its replicas may all be on one node", w.name)
		}
		budgeted := false
		for _, b := range all.budgets {
			if b.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != name {
				continue
			}
			budgeted = true
			if policy := b.Spec.UnhealthyPodEvictionPolicy; policy == nil || *policy != policyv1.AlwaysAllow {
				all.Errorf("%s: a replica that is not ready blocks the drain of its node", w.name)
			}
		}
		if !budgeted {
			all.Errorf("%s: no disruption budget", w.name)
		}
	}
	guarded, served := false, w.pod.Labels["app.kubernetes.io/name"] == "reboot-agent" // which is asked by its Pods
	for _, p := range all.policies {
		guarded = guarded || p.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"] == name
	}
	for _, s := range all.services {
		served = served || s.Spec.Selector["app.kubernetes.io/name"] == name && s.Spec.Ports[0].Name == "http"
	}
	if !guarded || !served {
		all.Errorf("%s: has a network policy: %t, a Service with its metrics: %t", w.name, guarded, served)
	}
}

// render returns all objects of a kustomization, as make manifests has them.
func render(folder string) ([]byte, error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	return objects.AsYaml()
}

func TestInstallationsAreCurrent(t *testing.T) {
	files, err := filepath.Glob(root + "/examples/*/deploy/install.yaml")
	if err != nil || len(files) < 9 {
		t.Fatalf("found %d manifests: %v", len(files), err)
	}
	for _, file := range files {
		want, err := render(filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if _, after, _ := bytes.Cut(got, []byte("\n")); err != nil || !bytes.Equal(after, want) {
			t.Errorf("%s is not what its kustomization says: run make manifests", file)
		}
	}
}

func TestEveryProgramHasItsOverlays(t *testing.T) {
	folders, err := filepath.Glob(root + "/examples/*/deploy/kustomization.yaml")
	if err != nil || len(folders) < 8 {
		t.Fatalf("found %d kustomizations: %v", len(folders), err)
	}
	for _, folder := range folders {
		overlays := filepath.Join(filepath.Dir(folder), "..", "overlays")
		for overlay, adds := range map[string]string{
			"monitored": "kind: PodMonitor\n", "verbose": "      - args:\n        - --v=4\n        - ",
		} {
			text, err := render(filepath.Join(overlays, overlay))
			if err != nil || !bytes.Contains(text, []byte(adds)) {
				t.Errorf("%s: overlay %s does not add %q: %v", folder, overlay, adds, err)
			}
		}
	}
}

// A second apply must not reset the replicas that the autoscaler has set, and
// the autoscaler must use the metrics that the adapter's rules define.
func TestTheAutoscalerHasTheReplicas(t *testing.T) {
	text, err := render(root + "/examples/ingress-per-service/overlays/autoscaled")
	if err != nil || bytes.Contains(text, []byte("\n  replicas:")) || !bytes.Contains(text, []byte("kind: PodMonitor")) {
		t.Errorf("the overlay sets the replicas, or has no metrics: %v\n%s", err, text)
	}
	rules, err := os.ReadFile(root + "/examples/monitoring/adapter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`(?m)^        name: (controller_\w+)$`).FindAllSubmatch(text, -1)
	if len(asked) != 2 {
		t.Errorf("the autoscaler asks for %q", asked)
	}
	for _, metric := range asked {
		if !bytes.Contains(rules, []byte("as: "+string(metric[1])+"\n")) {
			t.Errorf("no rule of the adapter makes %s", metric[1])
		}
	}
}

// The one of docs/operating.md.
func TestImagesOfOnesOwnAreAKustomization(t *testing.T) {
	text, err := render("testdata/yours")
	if err != nil || !bytes.Contains(text, []byte("image: registry.example.com/team/website:v1.2.3\n")) {
		t.Errorf("the image is not replaced: %v", err)
	}
}

// The rules are those that docs/operating.md explains.
func TestAlertsAreDocumented(t *testing.T) {
	for _, of := range []string{"monitoring", "reboot/deploy"} {
		t.Run(of, func(t *testing.T) { alertsAreDocumented(t, root+"/examples/"+of+"/alerts.yaml") })
	}
}

func alertsAreDocumented(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Metadata struct{ Name string }
		Spec     struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr, For    string
					Labels, Annotations map[string]string
				}
			}
		}
	}
	if err := sigsyaml.Unmarshal(text, &rule); err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(root + "/docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rule.Spec.Groups[0].Rules {
		severity := strings.ToUpper(r.Labels["severity"][:1]) + r.Labels["severity"][1:]
		if rule.Metadata.Name == "reboot" {
			severity = "Of the [reboot operator](../examples/reboot), " + r.Labels["severity"]
		}
		section := fmt.Sprintf("### %s\n\n%s, after %s:\n\n```promql\n%s\n```\n", r.Alert, severity,
			cmp.Or(r.For, "0m"), r.Expr)
		section = strings.Replace(section, ", after 0m:", ", at once:", 1)
		if !strings.Contains(string(docs), section) {
			t.Errorf("docs/operating.md does not have the section\n%s", section)
		}
		if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/operating.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s does not link to its section: %q", r.Alert, r.Annotations["runbook_url"])
		}
	}
}
