package operator

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
)

// failing is a collector that calls fail at each scrape.
type failing struct{ fail func() }

func (failing) Describe(chan<- *prometheus.Desc) {}

func (f failing) Collect(chan<- prometheus.Metric) { f.fail() }

func TestACollectorThatPanicsCostsNoOtherMetrics(t *testing.T) {
	for text, fail := range map[string]func(){
		"panic: boom": func() { panic("boom") }, "runtime.Goexit was called": runtime.Goexit,
	} {
		g := NewWithT(t)
		registry := prometheus.NewRegistry()
		own := &registerer{inner: registry}
		gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "own", Help: "Own."})
		own.MustRegister(failing{fail}, gauge)
		g.Expect(own.errs()).NotTo(HaveOccurred())
		families, err := registry.Gather()
		g.Expect(err).To(MatchError(And(ContainSubstring("metrics of operator.failing: "), ContainSubstring(text))))
		g.Expect(families).To(ConsistOf(HaveField("GetName()", "own")))
		g.Expect(clashes(registry)).To(Succeed(), "it may work later")
		known, ok := errors.AsType[prometheus.AlreadyRegisteredError](own.Register(gauge))
		g.Expect(ok).To(BeTrue())
		g.Expect(known.ExistingCollector).To(BeIdenticalTo(gauge))
		g.Expect(own.Unregister(gauge)).To(BeTrue())
	}
}

// Prometheus gives a scrape ten seconds. Without a limit one collector would
// cost all metrics, and the start of the program, which gathers them once.
func TestACollectorThatBlocksCostsNoOtherMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		registry := prometheus.NewRegistry()
		own := &registerer{inner: registry}
		release := make(chan struct{})
		var calls atomic.Int32
		blocking := failing{func() {
			calls.Add(1)
			<-release
		}}
		own.MustRegister(blocking, prometheus.NewGauge(prometheus.GaugeOpts{Name: "own", Help: "Own."}))
		for range 3 {
			families, err := registry.Gather()
			g.Expect(err).To(MatchError(ContainSubstring("metrics of operator.failing: the collector has not returned after 5s")))
			g.Expect(families).To(ConsistOf(HaveField("GetName()", "own")))
			g.Expect(clashes(registry)).To(Succeed(), "it may work later")
		}
		g.Expect(calls.Load()).To(BeEquivalentTo(1), "no further goroutine while one hangs")
		close(release)
		synctest.Wait()
		_, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
	})
}

// A late metric is not sent to a registry that has closed its channel.
func TestALateMetricIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		registry := prometheus.NewRegistry()
		gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "late", Help: "Late."})
		(&registerer{inner: registry}).MustRegister(delayed{gauge})
		families, err := registry.Gather()
		g.Expect(err).To(MatchError(ContainSubstring("the collector has not returned after 5s")))
		g.Expect(families).To(BeEmpty())
		<-time.After(time.Minute) // virtual
		synctest.Wait()
	})
}

// delayed is a collector that takes a minute.
type delayed struct{ prometheus.Collector }

func (d delayed) Collect(metrics chan<- prometheus.Metric) {
	<-time.After(time.Minute) // virtual
	d.Collector.Collect(metrics)
}

// undescribed is a collector that calls fail instead of describing itself.
type undescribed struct {
	failing
	fail func()
}

func (u undescribed) Describe(chan<- *prometheus.Desc) { u.fail() }

func TestACollectorThatPanicsWhenItDescribesItselfIsNotRegistered(t *testing.T) {
	for text, fail := range map[string]func(){
		"panic: boom": func() { panic("boom") }, "runtime.Goexit was called": runtime.Goexit,
	} {
		own := &registerer{inner: prometheus.NewRegistry()}
		NewWithT(t).Expect(own.Register(undescribed{fail: fail})).To(MatchError(
			And(ContainSubstring("describing the metrics of operator.undescribed: "), ContainSubstring(text))))
	}
}
