package metrics_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
)

type (
	configMap = corev1.ConfigMap
	request   = reconcile.Request[*configMap]
	function  = reconcile.Func[*configMap]
)

var nothing = reconcile.Result{}

func idle(context.Context, request) (reconcile.Result, error) { return nothing, nil }

func named(name string) *configMap {
	return &configMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
}

// fixture has controllers of the ConfigMaps of a fake clientset, and a registry
// with their metrics, in virtual time.
type fixture struct {
	*WithT
	t           *testing.T
	client      *fake.Clientset
	maps        *informer.Informer[*configMap]
	registry    *prometheus.Registry
	controllers []*reconcile.Controller
}

func inBubble(t *testing.T, objects []runtime.Object, f func(s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fixture{WithT: NewWithT(t), t: t, client: fake.NewClientset(objects...)}
		s.maps, s.registry = informer.For(s.client.CoreV1().ConfigMaps("d"), nil), prometheus.NewPedanticRegistry()
		f(s)
		problems, err := testutil.GatherAndLint(s.registry)
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(problems).To(BeEmpty())
	})
}

// controller makes a controller.
func (s *fixture) controller(name string, o *reconcile.Options, f function) {
	s.t.Helper()
	c, err := reconcile.New(name, s.maps, f, o)
	s.Expect(err).NotTo(HaveOccurred())
	s.controllers = append(s.controllers, c)
}

// register registers the collector of all controllers made so far.
func (s *fixture) register() {
	s.t.Helper()
	s.Expect(s.registry.Register(metrics.New(s.controllers...))).To(Succeed())
}

// start registers and runs all controllers until stop is called. stop returns
// their error.
func (s *fixture) start() (stop func() error) {
	s.t.Helper()
	s.register()
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reconcile.RunAll(ctx, s.controllers...) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-ended
	}
}

// shows expects the metrics named in text to have the values in text.
func (s *fixture) shows(text string) {
	s.t.Helper()
	var names []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(rest)[0])
		}
	}
	s.Expect(names).NotTo(BeEmpty())
	s.Expect(testutil.GatherAndCompare(s.registry, strings.NewReader(text), names...)).To(Succeed())
}

// value returns the value of a gauge or counter without further labels.
func (s *fixture) value(name string) float64 {
	s.t.Helper()
	m := s.family(name)[0]
	return m.GetGauge().GetValue() + m.GetCounter().GetValue()
}

// labelled returns the value of the counter with that label.
func (s *fixture) labelled(name, label, value string) float64 {
	s.t.Helper()
	for _, m := range s.family(name) {
		for _, l := range m.GetLabel() {
			if l.GetName() == label && l.GetValue() == value {
				return m.GetCounter().GetValue()
			}
		}
	}
	s.t.Fatalf("no metric is named %s{%s=%q}", name, label, value)
	return 0
}

func (s *fixture) histogram(name string) *dto.Histogram {
	s.t.Helper()
	return s.family(name)[0].GetHistogram()
}

func (s *fixture) family(name string) []*dto.Metric {
	s.t.Helper()
	families, err := s.registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	s.t.Fatalf("no metric is named %s", name)
	return nil
}

// update changes the version of an object.
func (s *fixture) update(name, version string) {
	s.t.Helper()
	changed := named(name)
	changed.ResourceVersion, changed.Labels = version, map[string]string{"version": version}
	_, err := s.client.CoreV1().ConfigMaps("d").Update(s.t.Context(), changed, metav1.UpdateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
}
