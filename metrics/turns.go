package metrics

import "github.com/homeostat/homeostat/reconcile"

var (
	turnsTotal = named("controller_runtime_reconcile_total",
		"Turns, by what they came to.", "controller", "result")
	errorsTotal = named("controller_runtime_reconcile_errors_total",
		"Turns that returned an error or panicked, terminal errors included.", "controller")
	terminalTotal = named("controller_runtime_terminal_reconcile_errors_total",
		"Turns that returned a terminal error: not retried until something changes.", "controller")
	panicsTotal = named("controller_runtime_reconcile_panics_total",
		"Turns that panicked.", "controller")
	turnSeconds = named("controller_runtime_reconcile_time_seconds",
		"How long turns took.", "controller")
	workers = named("controller_runtime_max_concurrent_reconciles",
		"Workers: how many turns may run at once.", "controller")
	active = named("controller_runtime_active_workers",
		"Turns that run now.", "controller")
	heldBack = named("homeostat_freshness_holdbacks_total",
		"Turns after which the key waited until the caches had seen its writes.", "controller")
	overdue = named("homeostat_freshness_overdue_total",
		"Turns that ran before the caches had seen the key's last writes: the deadline had passed.", "controller")
	failing = named("homeostat_failing_keys",
		"Keys whose last turn failed, counted up to 1000.", "controller")
	leading = named("homeostat_leading",
		"Whether this replica leads and turns run, of controllers that elect a leader.", "controller")
	hotLoops = named("homeostat_hot_loops_total",
		"Turns after which the key was slowed down, since it was getting nowhere.", "controller")
)

func (s sender) turns(c *reconcile.Controller) {
	name, stats := c.Name(), c.Stats()
	total := uint64(0)
	for i, n := range stats.Turns {
		s.count(n, turnsTotal, name, reconcile.Outcome(i).String()) //nolint:gosec // a handful of outcomes
		total += n
	}
	s.count(stats.Turns[reconcile.Failed]+stats.Turns[reconcile.GaveUp], errorsTotal, name)
	s.count(stats.Turns[reconcile.GaveUp], terminalTotal, name)
	s.count(stats.Panics, panicsTotal, name)
	s.histogram(total, stats.DurationsSum, stats.Durations, turnSeconds, name)
	s.gauge(float64(stats.Workers), workers, name)
	s.gauge(float64(stats.Active), active, name)
	s.count(stats.HeldBack, heldBack, name)
	s.count(stats.Overdue, overdue, name)
	s.count(stats.HotLoops, hotLoops, name)
	s.gauge(float64(stats.Failing), failing, name)
	if status := c.Status(0); status.Elects {
		s.gauge(truth(status.Phase == reconcile.Working), leading, name)
		s.slots(c, status.Slots)
	}
}
