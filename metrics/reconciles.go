package metrics

import (
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

var (
	resultsTotal = named("controller_runtime_reconcile_total",
		"Reconciles, by result; terminal errors and conflicts are errors.", "controller", "result")
	outcomesTotal = named("homeostat_reconciles_total",
		"Reconciles, by how they ended.", "controller", "outcome")
	errorsTotal = named("controller_runtime_reconcile_errors_total",
		"Reconciles that returned an error or panicked, terminal errors and conflicts included.", "controller")
	terminalTotal = named("controller_runtime_terminal_reconcile_errors_total",
		"Reconciles that returned a terminal error: not retried until something changes.", "controller")
	panicsTotal = named("controller_runtime_reconcile_panics_total",
		"Reconciles that panicked.", "controller")
	reconcileSeconds = named("controller_runtime_reconcile_time_seconds",
		"How long reconciles took.", "controller")
	workSeconds = named("workqueue_work_duration_seconds",
		"How long workers kept the keys that they have finished.", queueLabels...)
	retriesTotal = named("workqueue_retries_total",
		"Reconciles after which the key was added again with a delay: after an error, a conflict, or with After.",
		queueLabels...)
	workers = named("controller_runtime_max_concurrent_reconciles",
		"Workers: how many reconciles may run at once.", "controller")
	active = named("controller_runtime_active_workers",
		"Reconciles that run now.", "controller")
	heldBack = named("homeostat_freshness_holdbacks_total",
		"Reconciles after which the key waited until the caches had seen its writes.", "controller")
	overdue = named("homeostat_freshness_overdue_total",
		"Reconciles that ran before the caches had seen the key's last writes: the deadline had passed.", "controller")
	failing = named("homeostat_failing_keys",
		"Keys whose last reconcile failed, counted up to 1000.", "controller")
	leading = named("homeostat_leading",
		"Whether this replica leads and reconciles, of controllers that elect a leader.", "controller")
	stuckCalls = named("homeostat_stuck_calls",
		"Calls of reconcilers and mappers that have not returned though their context has ended.", "controller")
	stuckReports = named("homeostat_stuck_call_reports_total",
		"Log lines about calls that have not returned though their context has ended.", "controller")
	hotLoops = named("homeostat_hot_loops_total",
		"Reconciles after which the key was slowed down, since it was getting nowhere.", "controller")
)

func (s sender) reconciles(c *reconcile.Controller) {
	name, stats := c.Name(), c.Stats()
	total := uint64(0)
	for i, n := range stats.Reconciles {
		s.count(n, outcomesTotal, name, inspect.Outcome(i).String()) //nolint:gosec // a handful of outcomes
		total += n
	}
	succeeded, after := stats.Reconciles[inspect.Succeeded], stats.Reconciles[inspect.Requeued]
	errs := total - succeeded - after
	s.count(succeeded, resultsTotal, name, "success")
	s.count(after, resultsTotal, name, "requeue_after")
	s.count(errs, resultsTotal, name, "error")
	s.count(errs, errorsTotal, name)
	s.count(after+errs-stats.Reconciles[inspect.GaveUp], retriesTotal, name, name)
	s.histogram(total, stats.DurationsSum, stats.Durations, workSeconds, name, name)
	s.count(stats.Reconciles[inspect.GaveUp], terminalTotal, name)
	s.count(stats.Panics, panicsTotal, name)
	s.histogram(total, stats.DurationsSum, stats.Durations, reconcileSeconds, name)
	s.gauge(float64(stats.Workers), workers, name)
	s.gauge(float64(stats.Active), active, name)
	s.count(stats.HeldBack, heldBack, name)
	s.count(stats.Overdue, overdue, name)
	s.count(stats.HotLoops, hotLoops, name)
	s.gauge(float64(stats.Stuck), stuckCalls, name)
	s.count(stats.Overran, stuckReports, name)
	s.gauge(float64(stats.Failing), failing, name)
	if status := c.Status(0); status.Elects {
		s.gauge(truth(status.Phase == inspect.Working), leading, name)
		s.slots(c, status.Slots)
	}
}
