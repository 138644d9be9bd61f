package reconciletest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// errorLog collects the errors that a program logs with the logger of its
// context or with HandleError of apimachinery. It drops all other messages.
type errorLog struct {
	mu    sync.Mutex // guards the fields below
	lines []string
}

// logger returns a logger that adds errors to the log and drops other messages.
func (l *errorLog) logger() logr.Logger {
	return logr.New(traceSink{funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, report.Error+strings.TrimPrefix(prefix+": ", ": ")+strings.TrimPrefix(args, `"msg"=`))
	}, funcr.Options{Verbosity: -1}).GetSink()}) // errors only
}

// traceSink is a sink whose errors are added to the trace.
type traceSink struct{ logr.LogSink }

// WithValues returns a sink that adds values to each error.
func (h traceSink) WithValues(keysAndValues ...any) logr.LogSink {
	return traceSink{h.LogSink.WithValues(keysAndValues...)}
}

// WithName returns a sink that adds a name to each error.
func (h traceSink) WithName(name string) logr.LogSink { return traceSink{h.LogSink.WithName(name)} }

// handle is an error handler for utilruntime.ErrorHandlers. It assigns errors
// to the current run, even if their context is not the program's, or has
// another logger.
func (l *errorLog) handle(ctx context.Context, err error, message string, keysAndValues ...any) {
	logger := logr.FromContextOrDiscard(ctx)
	if _, ok := logger.GetSink().(traceSink); !ok {
		logger = l.logger()
	}
	logger.Error(err, message, keysAndValues...)
}

// take returns the errors logged since the last call, sorted because their
// order is not deterministic.
func (l *errorLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	slices.Sort(lines)
	return slices.Compact(lines)
}

// inContext returns a context whose logger writes to the log.
func (l *errorLog) inContext(ctx context.Context) context.Context {
	return klog.NewContext(ctx, l.logger())
}
