// Package tracing makes a span of each reconcile with OpenTelemetry.
//
// It is meant to be copied: pass the result of [Around] to reconcile.Options.Around.
// Spans started with the reconciler's context become part of the span, such as those
// of a client whose transport is otelhttp's.
//
//	controller, err := reconcile.New("web", informer, reconciler, &reconcile.Options{
//		Around: tracing.Around("web", otel.Tracer("web")),
//	})
package tracing
