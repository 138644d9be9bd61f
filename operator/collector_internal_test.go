package operator

import (
	"errors"
	"runtime"
	"testing"

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
