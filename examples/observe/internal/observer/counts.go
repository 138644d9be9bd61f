package observer

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
)

// counts contains the numbers of runs for the summary and for Prometheus. Its
// metrics have the same names as the metrics of oc observe, so that existing
// dashboards can show them.
type counts struct {
	runs, failures, retries, deletions atomic.Uint64
	errors                             atomic.Uint64 // number of failures that count towards Options.MaxErrors

	changes   *prometheus.CounterVec
	durations *prometheus.SummaryVec
	names     *prometheus.SummaryVec
}

func newCounts() *counts {
	return &counts{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "observe_counts", Help: "Changes for which the command was run.",
		}, []string{"type"}),
		durations: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "observe_exec_durations_milliseconds",
			Help: "How long commands ran, by exit code; -1 means that there was no exit code.",
		}, []string{"type", "exit_code"}),
		names: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "observe_name_exec_durations_milliseconds",
			Help: "How long the names command ran, by exit code; -1 means that there was no exit code.",
		}, []string{"exit_code"}),
	}
}

func (c *counts) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.changes, c.durations, c.names}
}

func (c *counts) ran(t Type, err error, took time.Duration) {
	c.runs.Add(1)
	c.durations.WithLabelValues(string(t), codeOf(err)).Observe(milliseconds(took))
}

func (c *counts) listed(err error, took time.Duration) {
	c.names.WithLabelValues(codeOf(err)).Observe(milliseconds(took))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// codeOf returns the exit code of a run that ended with err, as the value of a
// label.
func codeOf(err error) string {
	code, _ := exitCode(err)
	return strconv.Itoa(code)
}

// exitCode returns the exit code of a run that ended with err. It returns -1
// and false if the run had no exit code.
func exitCode(err error) (code int, ok bool) {
	if err == nil {
		return 0, true
	}
	if exit, ok := errors.AsType[*command.ExitError](err); ok {
		return exit.Code, true
	}
	return -1, false
}
