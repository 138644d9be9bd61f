//go:build e2e

// Package replicas_test measures the cost of a replica that caches only the
// objects of its own shards, on a real API server.
package replicas_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const (
	bounded = 5 * time.Minute
	quiet   = 10 * time.Second // after the start
)

// BenchmarkReplicas measures three replicas, each with the caches of its own
// shards, beside one that is alone and has no shards: once the server selects
// the objects of the shards, once it cannot. PROFILES is a folder for the
// profiles of the replicas.
func BenchmarkReplicas(b *testing.B) {
	s := newStage(b)
	s.start(true)
	for _, k := range kinds {
		s.fill(k)
	}
	for _, server := range []bool{true, false} {
		selects := "selects=server"
		if !server {
			s.start(false)
			selects = "selects=client"
		}
		for _, k := range kinds {
			if server {
				s.row(b, "kind="+k.name+"/impl=first", func() used { return s.measure(k, false, "first")[0] })
			}
			name := "kind=" + k.name + "/" + selects + "/impl="
			s.row(b, name+"alone", func() used { return s.measure(k, true, "")[0] })
			var all []used
			s.row(b, name+"one-of-three", func() used {
				all = s.measure(k, true, "a", "b", "c")
				return mean(all)
			})
			if len(all) > 0 { // -bench may leave it out
				s.row(b, name+"heaviest", func() used { return most(all) })
			}
		}
	}
}

// used is the resource usage of a replica, by unit.
type used map[string]float64

func mean(all []used) used {
	of := used{}
	for _, u := range all {
		for unit, v := range u {
			of[unit] += v / float64(len(all))
		}
	}
	return of
}

func most(all []used) used {
	of := used{}
	for _, u := range all {
		for unit, v := range u {
			of[unit] = max(of[unit], v)
		}
	}
	return of
}

// row reports the result of measure as a benchmark of that name.
func (s *stage) row(b *testing.B, name string, measure func() used) {
	b.Run(name, func(b *testing.B) {
		before := s.b
		s.b, s.WithT = b, NewWithT(b)
		defer func() { s.b, s.WithT = before, NewWithT(before) }()
		b.ReportMetric(0, "ns/op")
		for unit, v := range measure() {
			b.ReportMetric(v, unit)
		}
	})
}

// process is a running replica.
type process struct {
	stage   *stage
	command *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

func (s *stage) replica(k *kind, name string) *process {
	args := []string{"-kubeconfig", s.cluster.Kubeconfig(), "-name", name, "-kind", k.name}
	if folder := os.Getenv("PROFILES"); folder != "" {
		row := strings.NewReplacer("BenchmarkReplicas/", "", "/", "-", "=", "-").Replace(s.b.Name())
		args = append(args, "-profiles", filepath.Join(folder, row+"-"+name+"-"))
	}
	p := &process{stage: s, command: exec.CommandContext(s.b.Context(), s.program, args...)}
	p.command.Stderr = s.b.Output()
	var err error
	p.in, err = p.command.StdinPipe()
	s.Expect(err).NotTo(HaveOccurred())
	answers, err := p.command.StdoutPipe()
	s.Expect(err).NotTo(HaveOccurred())
	p.answers = bufio.NewScanner(answers)
	s.Expect(p.command.Start()).To(Succeed())
	return p
}

func (p *process) ask(question string) (answer map[string]float64) {
	_, err := io.WriteString(p.in, question+"\n")
	p.stage.Expect(err).NotTo(HaveOccurred())
	p.stage.Expect(p.answers.Scan()).To(BeTrue(), "an answer")
	p.stage.Expect(json.Unmarshal(p.answers.Bytes(), &answer)).To(Succeed())
	return answer
}

// peak returns the most resident memory since the last call, in bytes.
func (p *process) peak() float64 {
	pid := p.command.Process.Pid
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	p.stage.Expect(err).NotTo(HaveOccurred())
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib := 0.0
	_, err = fmt.Sscanf(rest, "%g", &kib)
	p.stage.Expect(err).NotTo(HaveOccurred())
	p.stage.Expect(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)).To(Succeed())
	return kib * 1024
}

func (p *process) end() {
	p.stage.Expect(p.in.Close()).To(Succeed())
	p.stage.Expect(p.command.Wait()).To(Succeed())
}

// measure starts replicas of these names at once and returns the usage of each:
// at the start, and by writes if there are any.
func (s *stage) measure(k *kind, writes bool, names ...string) []used {
	began := time.Now()
	var all []*process
	for _, name := range names {
		all = append(all, s.replica(k, name))
	}
	s.Eventually(func() bool {
		total, heaviest := 0.0, 0.0
		for _, p := range all {
			objects := p.ask("look")["objects"]
			total, heaviest = total+objects, max(heaviest, objects)
		}
		return total >= float64(k.count) && heaviest*float64(len(all)) <= 1.3*total && total <= 1.1*float64(k.count)
	}).WithTimeout(bounded).WithPolling(200*time.Millisecond).Should(BeTrue(), "each replica has its part")
	s.b.Logf("%s: balanced after %v", s.b.Name(), time.Since(began).Round(time.Millisecond))
	pause(quiet)
	const mib = 1 << 20
	results, before := make([]used, len(all)), make([]map[string]float64, len(all))
	for n, p := range all {
		peak := p.peak()
		u := p.ask("measure")
		before[n] = u
		results[n] = used{"start-cpu-s": u["processor"], "start-received-MiB": u["received"] / mib, "start-peak-MiB": peak / mib}
	}
	if writes {
		s.measureWrites(k, all, before, results)
	}
	for _, p := range all {
		p.end()
	}
	return results
}

// measureWrites adds the cost of writes, and the memory of the replicas afterwards.
func (s *stage) measureWrites(k *kind, all []*process, before []map[string]float64, results []used) {
	written := s.write(k)
	pause(2 * time.Second)
	const mib = 1 << 20
	for n, p := range all {
		to, peak := results[n], p.peak()
		u := p.ask("measure")
		// The machine may be too busy for all writes.
		to["write-cpu-µs"] = (u["processor"] - before[n]["processor"] - before[n]["measuring"]) / written * 1e6
		to["write-received-B"] = (u["received"] - before[n]["received"]) / written
		to["peak-MiB"], to["resident-MiB"], to["file-MiB"] = peak/mib, u["resident"]/mib, u["program"]/mib
		to["heap-MiB"], to["objects"] = u["heap"]/mib, u["objects"]
		to["writes/s"], to["B/object"] = written/writing.Seconds(), float64(k.size)
	}
}

func pause(d time.Duration) { <-time.After(d) }
