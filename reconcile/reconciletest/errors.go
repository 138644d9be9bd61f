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

// errorLog collects the errors that a program logs: by the logger of its
// context, or by HandleError of apimachinery. Everything else that it logs is
// dropped.
type errorLog struct {
	mu    sync.Mutex // guards the fields below
	lines []string
}

// logger returns a logger whose errors come into the trace.
func (l *errorLog) logger() logr.Logger {
	return logr.New(heard{funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, report.Error+strings.TrimPrefix(prefix+": ", ": ")+strings.TrimPrefix(args, `"msg"=`))
	}, funcr.Options{Verbosity: -1}).GetSink()}) // errors alone
}

// heard is a sink whose errors come into the trace.
type heard struct{ logr.LogSink }

// WithValues adds values to each error.
func (h heard) WithValues(keysAndValues ...any) logr.LogSink {
	return heard{h.LogSink.WithValues(keysAndValues...)}
}

// WithName adds a name to each error.
func (h heard) WithName(name string) logr.LogSink { return heard{h.LogSink.WithName(name)} }

// handle is for utilruntime.ErrorHandlers: errors without the context of a
// program, or with a logger of its own, which may be silent, belong to the
// current run.
func (l *errorLog) handle(ctx context.Context, err error, message string, keysAndValues ...any) {
	logger := logr.FromContextOrDiscard(ctx)
	if _, is := logger.GetSink().(heard); !is {
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

// with returns a context whose logger writes to the log.
func (l *errorLog) with(ctx context.Context) context.Context { return klog.NewContext(ctx, l.logger()) }
