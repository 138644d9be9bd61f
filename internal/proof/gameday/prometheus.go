package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// scale is the number by which the times in the rules are divided. The
// durations of Leases are not divided. So with a larger scale, taking over a
// Lease would take longer than a rule waits for a leader, and the rule would
// fire.
const scale = 5

// prometheus is a running Prometheus.
type prometheus struct {
	address string
	process *exec.Cmd
}

// duration matches a duration in a rule: the range of a query, or the time for
// which it must hold.
var duration = regexp.MustCompile(`(?m)(\[|^\s*for: )(\d+)([smh])`)

// shortened returns rules with all durations divided by the constant scale.
func shortened(rules string) string {
	seconds := map[string]int{"s": 1, "m": 60, "h": 3600}
	return duration.ReplaceAllStringFunc(rules, func(text string) string {
		parts := duration.FindStringSubmatch(text)
		n, _ := strconv.Atoi(parts[2]) // digits
		return parts[1] + strconv.Itoa(n*seconds[parts[3]]/scale) + "s"
	})
}

// startPrometheus starts a Prometheus that scrapes the replicas and evaluates
// the alerts of examples/monitoring.
func startPrometheus(root, folder string, targets []string) (*prometheus, error) {
	text, err := os.ReadFile(filepath.Join(root, "examples", "monitoring", "alerts.yaml"))
	if err != nil {
		return nil, err
	}
	var manifest struct{ Spec any }
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		return nil, err
	}
	rules, err := yaml.Marshal(manifest.Spec)
	if err != nil {
		return nil, err
	}
	var configs strings.Builder
	for n, target := range targets {
		fmt.Fprintf(&configs, "      - {targets: [%q], labels: {namespace: %s, pod: %s-%d, container: %s}}\n",
			target, name, name, n, container)
	}
	config := "global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 2s}\nrule_files: [rules.yaml]\n" +
		"scrape_configs:\n  - job_name: pods\n    static_configs:\n" + configs.String()
	for file, content := range map[string]string{"prometheus.yaml": config, "rules.yaml": shortened(string(rules))} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	p := &prometheus{}
	if p.address, err = freeAddress(); err != nil {
		return nil, err
	}
	//nolint:noctx // stop ends the process
	p.process = exec.Command("prometheus", "--config.file="+filepath.Join(folder, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+p.address, "--log.level=error")
	p.process.Stderr = os.Stderr
	return p, p.process.Start()
}

func (p *prometheus) stop() error {
	if err := p.process.Process.Kill(); err != nil {
		return err
	}
	_ = p.process.Wait() // returns the error that the signal has ended the process
	return nil
}

// firing returns the text of the most severe firing alert. It returns the empty
// string if no alert fires.
func (w *world) firing(ctx context.Context) string {
	for _, a := range w.alerts(ctx) {
		return a.name() + ": " + a.Annotations["summary"]
	}
	return ""
}

// scraped returns an error unless Prometheus has the metrics of each replica.
// Rules about a missing replica need metrics from the time before the incident.
func (w *world) scraped(ctx context.Context) error {
	text, err := get(ctx, "http://"+w.prometheus.address+"/api/v1/query?query=homeostat_failing_keys", "")
	if err != nil {
		return err
	}
	var answer struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return fmt.Errorf("asking Prometheus: %w", err)
	}
	if n := len(answer.Data.Result); n < len(w.replicas) {
		return fmt.Errorf("prometheus has the metrics of %d replicas, want %d", n, len(w.replicas))
	}
	return nil
}
