// Package tracing makes a span of each reconcile with OpenTelemetry.
//
// It is to be copied: reconcile.Options.Around takes what [Around] returns, and
// what the reconciler does with its context becomes part of the span, such as the
// requests of a client whose transport is otelhttp's.
//
//	controller, err := reconcile.New("web", informer, reconciler, &reconcile.Options{
//		Around: tracing.Around("web", otel.Tracer("web")),
//	})
package tracing
