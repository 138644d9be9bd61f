//go:build e2e

package references_test

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/proof/bench/references/app"
)

const (
	thousand  = 1000
	longest   = 10 * time.Minute
	perSecond = 50 // writes
	writes    = 30 * time.Second
)

// Watches last from 5 to 10 minutes.
var renewals = flag.Duration("renewals", longest, "how long requests at rest are counted, reported from 10m on")

// BenchmarkThousand measures an operator whose 1,000 objects refer to a Secret
// each, all in one namespace, and what the API server does for it. There are
// 3,000 other Secrets.
func BenchmarkThousand(b *testing.B) {
	s := newStage(b)
	s.namespaces(31)
	referred := func(n int) (string, string) { return namespace(30), fmt.Sprint("referred-", n) }
	s.secrets(0, thousand, 1<<10, referred)
	s.secrets(0, 3000, 1<<10, func(n int) (string, string) { return namespace(n % 30), fmt.Sprint("foreign-", n) })
	s.each(thousand, func(ctx context.Context, n int) error {
		return s.app(ctx, namespace(30), fmt.Sprint("app-", n), app.Spec{})
	})
	commands := []struct {
		impl, command string
		rest          time.Duration
	}{
		{"homeostat-none", "", time.Minute}, // no operator at all
		{"homeostat", "homeostat --above=100000", *renewals},
		{"homeostat-shared", "homeostat", *renewals},
		{"homeostat-all", "homeostat --all", time.Minute},
		{"controller-runtime", "controller-runtime", time.Minute},
	}
	without := map[string][2]float64{} // memory and goroutines
	for _, c := range commands[1:] {
		p := s.start(fmt.Sprintf("%s --apps=%d", c.command, thousand))
		s.Expect(p.line()).To(Equal("done"))
		pause(rests)
		inUse, goroutines := p.measure()
		without[c.impl] = [2]float64{inUse, goroutines}
		p.stop()
	}
	s.each(thousand, func(ctx context.Context, n int) error {
		_, name := referred(n)
		_, err := s.apps.In(namespace(30)).Patch(ctx, fmt.Sprint("app-", n), types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"secrets":[%q]}}`, name), metav1.PatchOptions{})
		return err
	})
	for _, c := range commands {
		b.Run("impl="+c.impl, func(b *testing.B) {
			for b.Loop() {
				s.measure(b, c.command, c.rest, without[c.impl])
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// measure reports what an operator costs, and what it costs the server.
func (s *stage) measure(b *testing.B, command string, rest time.Duration, without [2]float64) {
	b.Helper()
	before := s.serverMemory()
	residentBefore, spent := s.server.resident(), s.server.processor()
	if command != "" {
		p := s.start(fmt.Sprintf("%s --apps=%d", command, thousand))
		defer p.stop()
		s.Expect(p.line()).To(Equal("done"))
		pause(rests)
		inUse, goroutines := p.measure()
		b.ReportMetric((inUse-without[0])/1024/thousand, "KiB/reference")
		b.ReportMetric((goroutines-without[1])/thousand, "goroutines/reference")
		b.ReportMetric(p.resident(), "MiB")
	} else {
		pause(rests)
	}
	b.ReportMetric((s.server.processor() - spent).Seconds(), "server-start-cpu-s")
	b.ReportMetric((s.serverMemory()-before)/(1<<20), "server-in-use-MiB")
	b.ReportMetric(s.server.resident()-residentBefore, "server-resident-MiB")

	requests, spent := s.requests(), s.server.processor()
	pause(rest)
	minutes := rest.Minutes()
	if rest >= longest {
		b.ReportMetric((s.requests()-requests)/minutes/thousand, "requests/minute")
	}
	b.ReportMetric(float64((s.server.processor()-spent).Milliseconds())/minutes, "server-cpu-ms/minute")

	spent = s.server.processor()
	n := s.write()
	b.ReportMetric(float64((s.server.processor()-spent).Microseconds())/float64(n), "server-cpu-µs/write")
}

// write writes Secrets, every second one of those that are referred to, at a
// steady rate, and returns how many.
func (s *stage) write() (n int) {
	ticks := time.NewTicker(time.Second / perSecond)
	defer ticks.Stop()
	for began := time.Now(); time.Since(began) < writes; n++ {
		<-ticks.C
		in, name := namespace(30), fmt.Sprint("referred-", n%thousand)
		if n%2 == 0 {
			in, name = namespace(n%30), fmt.Sprint("foreign-", n%30)
		}
		_, err := s.client.CoreV1().Secrets(in).Patch(s.b.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, time.Now().UnixNano()), metav1.PatchOptions{})
		s.Expect(err).NotTo(HaveOccurred())
	}
	return n
}

// serverMemory returns the memory that the server has in use after a garbage
// collection, in bytes.
func (s *stage) serverMemory() float64 {
	get := s.client.Discovery().RESTClient().Get
	_, err := get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(s.b.Context())
	s.Expect(err).NotTo(HaveOccurred())
	return s.metric("go_memstats_heap_inuse_bytes") + s.metric("go_memstats_stack_inuse_bytes")
}

// requests counts those about Secrets that are no writes. A watch counts when it
// ends.
func (s *stage) requests() float64 {
	return s.metric("apiserver_request_total{", `resource="secrets"`, `verb="LIST"`) +
		s.metric("apiserver_request_total{", `resource="secrets"`, `verb="WATCH"`)
}

// metric returns the sum of a metric of the server over all labels with parts.
func (s *stage) metric(name string, parts ...string) (sum float64) {
	text, err := s.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.b.Context())
	s.Expect(err).NotTo(HaveOccurred())
lines:
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, name) {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		s.Expect(err).NotTo(HaveOccurred())
		sum += value
	}
	return sum
}
