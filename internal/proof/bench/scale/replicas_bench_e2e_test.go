//go:build e2e

package scale_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/proof/e2e"
)

const (
	configMaps  = 50_000
	ofNamespace = 100 // ConfigMaps
	content     = 900 // bytes of each
	perSecond   = 200 // writes
	writing     = time.Minute
	writers     = 8
	together    = 3 // replicas
	bounded     = 5 * time.Minute
)

var out = flag.String("out", "", "`file` for the table")

// BenchmarkReplicas measures three replicas, each with the caches of its own shards, beside one that is alone and has no
// shards, on a real API server: once the server selects the objects of the shards, once it cannot.
//
//	cd internal/proof/bench && go test -tags e2e ./scale -run '^$' -bench Replicas -benchtime 1x -timeout 30m \
//	  -out ../../../../docs/benchmarks/replicas.txt
func BenchmarkReplicas(b *testing.B) {
	s := newStage(b)
	s.start(true)
	s.fill()
	first := s.measure("the first start", "first") // it chooses the ranges
	var table strings.Builder
	fmt.Fprintf(&table, "%d ConfigMaps of %d bytes in %d namespaces, %d writes a second for %v\n",
		configMaps, content, configMaps/ofNamespace, perSecond, writing)
	fmt.Fprintf(&table, "the first replica of all, which chooses the ranges: %.2f s of processor time, %.0f MiB received\n",
		first[0].start["processor"], first[0].start["received"]/(1<<20))
	for _, server := range []bool{true, false} {
		if !server {
			s.start(false)
		}
		name := map[bool]string{true: "server", false: "client"}[server]
		alone := s.measure(name+"/alone", "")[0]
		all := s.measure(name+"/together", "a", "b", "c")
		fmt.Fprintf(&table, "\nthe %s selects\n%s", name, compare(alone, all))
		for _, row := range rows() {
			b.ReportMetric(row.mean(all)/row.of(alone), name+"-"+row.unit+"/alone")
		}
	}
	b.ReportMetric(0, "ns/op")
	b.Log("\n" + table.String())
	if *out != "" {
		NewWithT(b).Expect(os.WriteFile(*out, []byte(table.String()), 0o600)).To(Succeed())
	}
}

// usage is what a replica has used, by name: as replica/main.go prints it, and "peak".
type usage map[string]float64

// used is that of one replica: when all objects were cached, and then by the writes. What it has is in both.
type used struct{ start, writes usage }

// row is a line of the table.
type row struct {
	name, format, unit string
	of                 func(used) float64
}

func rows() []row {
	const mib = 1 << 20
	of := func(name string, by float64) func(used) float64 {
		return func(u used) float64 { return u.start[name] / by }
	}
	by := func(name string, by float64) func(used) float64 {
		return func(u used) float64 { return u.writes[name] / by }
	}
	return []row{
		{"start: processor time", "%.2f s", "start-cpu", of("processor", 1)},
		{"start: received", "%.1f MiB", "start-received", of("received", mib)},
		{"start: resident, at most", "%.1f MiB", "start-peak", of("peak", mib)},
		{"for each write: processor time", "%.0f µs", "write-cpu", by("processor", 1e-6)},
		{"for each write: received", "%.0f B", "write-received", by("received", 1)},
		{"writes: resident, at most", "%.1f MiB", "writes-peak", by("peak", mib)},
		{"then: resident", "%.1f MiB", "resident", by("resident", mib)},
		{"then: of the program's file", "%.1f MiB", "file", by("program", mib)},
		{"then: heap in use", "%.1f MiB", "heap", by("heap", mib)},
		{"then: objects", "%.0f", "objects", by("objects", 1)},
	}
}

func (r row) mean(all []used) (mean float64) {
	for _, u := range all {
		mean += r.of(u) / float64(len(all))
	}
	return mean
}

func (r row) most(all []used) (most float64) {
	for _, u := range all {
		most = max(most, r.of(u))
	}
	return most
}

// compare has a column for one alone, and for those together.
func compare(alone used, all []used) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\talone\tone of %d\tof alone\theaviest\tof alone\t\n", len(all))
	for _, r := range rows() {
		value := func(v float64) string { return fmt.Sprintf(r.format, v) }
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%s\t%.2f\t\n", r.name, value(r.of(alone)),
			value(r.mean(all)), r.mean(all)/r.of(alone), value(r.most(all)), r.most(all)/r.of(alone))
	}
	_ = w.Flush() // to memory
	return text.String()
}

// stage is the API server, the objects, and the program that is measured.
type stage struct {
	*WithT

	b       *testing.B
	folder  string // of the server's data, which stay when it is started again
	program string
	cluster *e2e.Cluster
	client  kubernetes.Interface
	random  *rand.Rand
}

func newStage(b *testing.B) *stage {
	s := &stage{WithT: NewWithT(b), b: b, folder: b.TempDir(), random: rand.New(rand.NewPCG(5, 6))}
	s.program = filepath.Join(b.TempDir(), "replica")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", s.program, "./replica")
	said, err := build.CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), string(said))
	b.Cleanup(s.stop)
	return s
}

func (s *stage) stop() {
	if s.cluster != nil {
		s.Expect(s.cluster.Stop()).To(Succeed())
		s.cluster = nil
	}
}

// start starts the server, whose objects stay, with or without server-side shards.
func (s *stage) start(shards bool) {
	s.stop()
	var err error
	s.cluster, err = e2e.Start(s.b.Context(), &e2e.Options{
		DataDir: filepath.Join(s.folder, "data"), Progress: s.b.Output(),
		Flags: []string{fmt.Sprintf("kube-apiserver:--feature-gates=ShardedListAndWatch=%v", shards)},
	})
	s.Expect(err).NotTo(HaveOccurred())
	config := s.cluster.Config()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	s.client = kubernetes.NewForConfigOrDie(config)
}

func (s *stage) configMap(n int) *corev1.ConfigMap {
	text := make([]byte, content)
	for i := range text {
		text[i] = byte('a' + s.random.IntN(26))
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("tenant-%05d", 1+n/ofNamespace), Name: fmt.Sprintf("settings-%02d", n%ofNamespace)},
		Data:       map[string]string{"settings": string(text)},
	}
}

// fill creates the objects.
func (s *stage) fill() {
	var failed atomic.Pointer[error]
	each := func(n int, do func(n int) error) {
		var doing sync.WaitGroup
		var next atomic.Int64
		for range 2 * writers {
			doing.Go(func() {
				for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
					if err := do(i); err != nil {
						failed.Store(&err)
					}
				}
			})
		}
		doing.Wait()
	}
	began := time.Now()
	each(configMaps/ofNamespace, func(n int) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tenant-%05d", 1+n)}}
		_, err := s.client.CoreV1().Namespaces().Create(s.b.Context(), namespace, metav1.CreateOptions{})
		return err
	})
	var mu sync.Mutex
	each(configMaps, func(n int) error {
		mu.Lock()
		object := s.configMap(n)
		mu.Unlock()
		_, err := s.client.CoreV1().ConfigMaps(object.Namespace).Create(s.b.Context(), object, metav1.CreateOptions{})
		return err
	})
	if err := failed.Load(); err != nil {
		s.b.Fatal(*err)
	}
	s.b.Logf("created %d objects in %v", configMaps, time.Since(began))
}

// write updates objects at random, so many a second if the machine can, and returns how many.
func (s *stage) write() float64 {
	ctx, cancel := context.WithTimeout(s.b.Context(), writing)
	defer cancel()
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	objects, written := make(chan *corev1.ConfigMap), atomic.Int64{}
	var doing sync.WaitGroup
	for range writers {
		doing.Go(func() {
			for object := range objects {
				_, err := s.client.CoreV1().ConfigMaps(object.Namespace).Update(s.b.Context(), object, metav1.UpdateOptions{})
				if err != nil {
					s.b.Error(err)
				}
				written.Add(1)
			}
		})
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			objects <- s.configMap(s.random.IntN(configMaps))
		}
	}
	close(objects)
	doing.Wait()
	s.b.Logf("%d writes", written.Load())
	return float64(written.Load())
}

// process is a running replica.
type process struct {
	stage   *stage
	command *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

func (s *stage) replica(prefix, name string) *process {
	args := []string{"-kubeconfig", s.cluster.Kubeconfig(), "-name", name}
	if folder := os.Getenv("PROFILES"); folder != "" {
		args = append(args, "-profiles", filepath.Join(folder, strings.ReplaceAll(prefix, "/", "-")+"-"+name+"-"))
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

func (p *process) ask(question string) usage {
	_, err := io.WriteString(p.in, question+"\n")
	p.stage.Expect(err).NotTo(HaveOccurred())
	p.stage.Expect(p.answers.Scan()).To(BeTrue(), "an answer")
	u := usage{}
	p.stage.Expect(json.Unmarshal(p.answers.Bytes(), &u)).To(Succeed())
	return u
}

// measure is ask, with the most resident memory since the last call.
func (p *process) measure() usage {
	pid := p.command.Process.Pid
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	p.stage.Expect(err).NotTo(HaveOccurred())
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib := 0.0
	_, err = fmt.Sscanf(rest, "%g", &kib)
	p.stage.Expect(err).NotTo(HaveOccurred())
	u := p.ask("measure")
	u["peak"] = kib * 1024
	p.stage.Expect(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)).To(Succeed())
	return u
}

func (p *process) end() {
	p.stage.Expect(p.in.Close()).To(Succeed())
	p.stage.Expect(p.command.Wait()).To(Succeed())
}

// measure starts replicas of these names at once and returns what each has used.
func (s *stage) measure(what string, names ...string) []used {
	began := time.Now()
	var all []*process
	for _, name := range names {
		all = append(all, s.replica(what, name))
	}
	s.Eventually(func() bool {
		total, most := 0.0, 0.0
		for _, p := range all {
			objects := p.ask("look")["objects"]
			total, most = total+objects, max(most, objects)
		}
		return total >= configMaps && most*float64(len(all)) <= 1.3*total && total <= 1.1*configMaps
	}).WithTimeout(bounded).WithPolling(200*time.Millisecond).Should(BeTrue(), "each replica has its part")
	balanced := time.Since(began)
	pause(10 * time.Second) // until all is quiet
	results := make([]used, len(all))
	for n, p := range all {
		results[n].start = p.measure()
	}
	written := s.write()
	pause(2 * time.Second)
	for n, p := range all {
		u := p.measure()
		for _, name := range []string{"processor", "received", "reconciles"} {
			u[name] -= results[n].start[name]
		}
		u["processor"] -= results[n].start["measuring"]
		u["processor"], u["received"] = u["processor"]/written, u["received"]/written // the machine may be too busy for all
		results[n].writes = u
	}
	for _, p := range all {
		p.end()
	}
	s.b.Logf("%s: balanced after %v: %v", what, balanced.Round(time.Millisecond), results)
	return results
}

func pause(d time.Duration) { <-time.After(d) }
