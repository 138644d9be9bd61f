package tracing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/examples/tracing"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

func TestEachReconcileIsASpanThatContainsWhatItDoes(t *testing.T) {
	g := NewWithT(t)
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	maps := informer.For(fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"},
	}).CoreV1().ConfigMaps("d"), nil)
	c, err := reconcile.New("web", maps, reconcile.Func[*corev1.ConfigMap](
		func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			_, request := tracer.Start(ctx, "PATCH")
			request.End()
			reconcile.Wrote(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "e", Name: "written"}})
			return reconcile.Result{}, reconcile.Terminal(errors.New("broken"))
		}), &reconcile.Options{Around: tracing.Around("web", tracer)})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	g.Eventually(recorder.Ended, 10*time.Second).Should(HaveLen(2))
	cancel()
	g.Expect(<-ended).To(Succeed())

	request, span := recorder.Ended()[0], recorder.Ended()[1]
	g.Expect(request.Parent().SpanID()).To(Equal(span.SpanContext().SpanID()))
	g.Expect(span.Name()).To(Equal("reconcile web"))
	g.Expect(span.Attributes()).To(ContainElements(
		attribute.String("k8s.namespace.name", "d"), attribute.String("k8s.object.name", "a"),
		attribute.Int("reconcile.attempt", 1), attribute.String("reconcile.outcome", "terminal")))
	g.Expect(span.Status()).To(Equal(sdktrace.Status{Code: codes.Error, Description: "broken"}))
	names := []string{}
	for _, e := range span.Events() {
		names = append(names, e.Name)
	}
	g.Expect(names).To(Equal([]string{"cause", "write", "exception"}))
}
