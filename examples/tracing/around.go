package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Around returns a hook that records a span for each reconcile of the named
// controller. The span's attributes are the key, the attempt and the outcome.
// The span has an event for each cause of the reconcile and for each write. If
// the reconcile fails, the span records the error, and has the status Error.
func Around(
	controller string, tracer trace.Tracer,
) func(context.Context, reconcile.Key) (context.Context, func(inspect.Attempt, error)) {
	return func(ctx context.Context, key reconcile.Key) (context.Context, func(inspect.Attempt, error)) {
		ctx, span := tracer.Start(ctx, "reconcile "+controller, trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(
				attribute.String("k8s.namespace.name", key.Namespace), attribute.String("k8s.object.name", key.Name)))
		return ctx, func(a inspect.Attempt, err error) { end(span, &a, err) }
	}
}

func end(span trace.Span, a *inspect.Attempt, err error) {
	span.SetAttributes(
		attribute.Int("reconcile.attempt", a.Number), attribute.String("reconcile.outcome", a.Outcome.String()))
	for _, c := range a.Causes {
		span.AddEvent("cause", trace.WithAttributes(
			attribute.String("trigger", c.Trigger), attribute.String("change", c.Type),
			attribute.String("object", c.Namespace+"/"+c.Name), attribute.String("resourceVersion", c.NewVersion)))
	}
	for _, w := range a.Writes {
		span.AddEvent("write", trace.WithAttributes(
			attribute.String("kind", w.Kind), attribute.String("object", w.Namespace+"/"+w.Name),
			attribute.String("resourceVersion", w.ResourceVersion), attribute.Bool("deleted", w.Deleted)))
	}
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, a.Failure)
	}
	span.End(trace.WithTimestamp(a.Start.Add(a.Took)))
}
