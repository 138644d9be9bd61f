// Package tracing makes an OpenTelemetry span for each reconcile:
//
//	controller, err := reconcile.New("web", informer, reconciler, &reconcile.Options{
//		Around: tracing.Around("web", otel.Tracer("web")),
//	})
//
// It is meant to be copied: pass the result of [Around] to
// reconcile.Options.Around. Spans that are started with the reconciler's
// context become children of this span, such as the spans of a client with an
// otelhttp transport.
package tracing
