package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// What the Prometheus operator does not know, it ignores, and an alert is
// silent: its own types decide.
func TestThePrometheusOperatorKnowsEveryField(t *testing.T) {
	texts := map[string]string{}
	for _, file := range []string{
		"examples/monitoring/podmonitor.yaml", "examples/monitoring/alerts.yaml", "examples/reboot/deploy/alerts.yaml",
		"operator/new/template/monitoring/podmonitor.yaml.tmpl",
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = regexp.MustCompile(`<<.*?>>`).ReplaceAllString(string(text), "widget-operator")
	}
	for _, product := range []string{"reboot", "observe"} {
		all, err := rendered(t, chartOf(product), product, `{monitoring: true}`)
		if err != nil {
			t.Fatal(err)
		}
		for key, o := range all {
			if o.GetKind() != "PodMonitor" {
				continue
			}
			text, err := sigsyaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			texts[product+" "+key] = string(text)
		}
	}
	if len(texts) != 6 {
		t.Errorf("there are %d objects: want one for each chart, too", len(texts))
	}
	for name, text := range texts {
		var monitor monitoringv1.PodMonitor
		var rule monitoringv1.PrometheusRule
		into := any(&monitor)
		if strings.Contains(text, "kind: PrometheusRule") {
			into = &rule
		}
		if err := sigsyaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(monitor.Spec.PodMetricsEndpoints) == 0 && len(rule.Spec.Groups) == 0 {
			t.Errorf("%s has neither endpoints nor rules", name)
		}
	}
}

// Prometheus can evaluate each question of the dashboard; the tests of package
// metrics know the names.
func TestTheDashboardAsksWhatPrometheusUnderstands(t *testing.T) {
	needPromtool(t)
	text, err := os.ReadFile(filepath.Join(root, "examples/monitoring/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$namespace", ".*", "$__rate_interval", "5m").Replace(target.Expr)
			rules = append(rules, rule{fmt.Sprintf("panel:%d", len(rules)), expr})
		}
	}
	if len(rules) < 25 {
		t.Errorf("the dashboard has %d questions, want more", len(rules))
	}
	asked, err := sigsyaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	if err := os.WriteFile(filepath.Join(run, "rules.yaml"), asked, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, run, "check", "rules", "rules.yaml")
}

// When the alerts fire is told to Prometheus itself. Without promtool the test
// is skipped, but not in CI.
func TestAlertsFire(t *testing.T) {
	needPromtool(t)
	for _, of := range []string{"monitoring", "reboot/deploy"} {
		folder := filepath.Join(root, "examples", of)
		text, err := os.ReadFile(filepath.Join(folder, "alerts.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var manifest struct{ Spec any }
		if err := sigsyaml.Unmarshal(text, &manifest); err != nil {
			t.Fatal(err)
		}
		rules, err := sigsyaml.Marshal(manifest.Spec)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := os.ReadFile(filepath.Join(folder, "alerts_test.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		run := t.TempDir()
		for name, content := range map[string][]byte{"rules.yaml": rules, "alerts_test.yaml": cases} {
			if err := os.WriteFile(filepath.Join(run, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		promtool(t, run, "check", "rules", "rules.yaml")
		promtool(t, run, "test", "rules", "alerts_test.yaml")
	}
}

// needPromtool skips a test if promtool is not installed. In CI the test fails
// instead.
func needPromtool(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		const none = "looking for promtool: there is none: install Debian's package prometheus"
		if os.Getenv("CI") == "" {
			t.Skip(none)
		}
		t.Fatal(none)
	}
}

// promtool runs it in a folder.
func promtool(t *testing.T, folder string, arguments ...string) {
	t.Helper()
	tool := exec.CommandContext(t.Context(), "promtool", arguments...)
	tool.Dir = folder
	if said, err := tool.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", arguments, err, said)
	}
}
