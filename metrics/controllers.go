package metrics

import (
	"strconv"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Reconciles.
var (
	resultsTotal = describe("controller_runtime_reconcile_total",
		"Reconciles, by result; terminal errors and conflicts are errors.", "controller", "result")
	outcomesTotal = describe("homeostat_reconciles_total",
		"Reconciles, by how they ended.", "controller", "outcome")
	errorsTotal = describe("controller_runtime_reconcile_errors_total",
		"Reconciles that returned an error or panicked, terminal errors and conflicts included.", "controller")
	terminalTotal = describe("controller_runtime_terminal_reconcile_errors_total",
		"Reconciles that returned a terminal error, and are not retried until an object changes.", "controller")
	panicsTotal = describe("controller_runtime_reconcile_panics_total",
		"Reconciles that panicked.", "controller")
	reconcileSeconds = describe("controller_runtime_reconcile_time_seconds",
		"How long reconciles took.", "controller")
	workSeconds = describe("workqueue_work_duration_seconds",
		"How long workers held the keys that they have finished.", queueLabels...)
	retriesTotal = describe("workqueue_retries_total",
		"Reconciles after which the key was added again with a delay: after an error, a conflict, or with After.",
		queueLabels...)
	workers = describe("controller_runtime_max_concurrent_reconciles",
		"Workers: how many reconciles may run at once.", "controller")
	active = describe("controller_runtime_active_workers",
		"Reconciles that are running now.", "controller")
	heldBack = describe("homeostat_freshness_holdbacks_total",
		"Reconciles after which the key waited until the caches had seen its writes.", "controller")
	overdue = describe("homeostat_freshness_overdue_total",
		"Reconciles that ran before the caches had seen the key's last writes, because Options.FreshnessDeadline had "+
			"passed.", "controller")
	failing = describe("homeostat_failing_keys",
		"Keys whose last reconcile failed, counted up to 1000.", "controller")
	leading = describe("homeostat_leading",
		"Whether this replica leads and reconciles, for controllers that elect a leader.", "controller")
	stuckCalls = describe("homeostat_stuck_calls",
		"Calls of reconcilers and mappers that have not returned although their context has ended.", "controller")
	stuckReports = describe("homeostat_stuck_call_reports_total",
		"Log lines about calls that have not returned although their context has ended.", "controller")
	hotLoops = describe("homeostat_hot_loops_total",
		"Reconciles with a write that made no progress, after which the reaction to changes of its object is delayed.",
		"controller")
)

// reconciles sends the counts of a controller's reconciles and, if the
// controller elects a leader, whether this replica leads. While an optional
// controller waits for its caches, it leaves that out, because no replica leads
// a controller that waits everywhere, and the sum 0 would raise an alert.
// Metrics that controller-runtime has as well are computed in the same way. For
// example, a conflict counts as an error and a retry, and a terminal error
// counts as an error but not as a retry.
func (s sender) reconciles(c *reconcile.Controller) {
	name, stats := c.Name(), c.Stats()
	total := uint64(0)
	for i, n := range stats.Reconciles {
		s.count(n, outcomesTotal, name, inspect.Outcome(i).String()) //nolint:gosec // a handful of outcomes
		total += n
	}
	succeeded, requeued := stats.Reconciles[inspect.Succeeded], stats.Reconciles[inspect.Requeued]
	errs := total - succeeded - requeued
	s.count(succeeded, resultsTotal, name, "success")
	s.count(requeued, resultsTotal, name, "requeue_after")
	s.count(errs, resultsTotal, name, "error")
	s.count(errs, errorsTotal, name)
	s.count(requeued+errs-stats.Reconciles[inspect.GaveUp], retriesTotal, name, name)
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
	status := c.Status(0)
	waits := status.Optional && (status.Phase == inspect.Created || status.Phase == inspect.Syncing)
	if status.Elects && !waits {
		s.gauge(valueOf(status.Phase == inspect.Working), leading, name)
		s.slots(c, status)
	}
}

// queueLabels are the labels of the queue metrics. As in controller-runtime,
// they include the name of the controller.
var queueLabels = []string{"name", "controller"}

// Queues and sweeps.
var (
	depth = describe("workqueue_depth",
		"Keys that wait for a worker.", queueLabels...)
	addsTotal = describe("workqueue_adds_total",
		"Additions of keys that were not waiting.", queueLabels...)
	unfinished = describe("workqueue_unfinished_work_seconds",
		"Total time that workers have held the keys they hold now.", queueLabels...)
	longest = describe("workqueue_longest_running_processor_seconds",
		"The longest time that a worker has held its key.", queueLabels...)
	waitSeconds = describe("workqueue_queue_duration_seconds",
		"How long keys waited for a worker.", queueLabels...)
	delayed = describe("homeostat_queue_delayed",
		"Keys that wait for a timer, or for the end of a back-off or of a hold.", "name")
	backingOff = describe("homeostat_queue_backing_off",
		"Keys that wait for the end of their back-off.", "name")
	queueFailing = describe("homeostat_queue_failing",
		"Keys that have failed and not succeeded since, and are retried.", "name")
	holds = describe("homeostat_queue_holds_total",
		"Reconciles after which the key was held: until its writes are seen, or because it made no progress.", "name")
	laneDepth = describe("homeostat_queue_lane_depth",
		"Keys that wait for a worker, by lane.", "name", "lane")
	laneOldest = describe("homeostat_queue_lane_oldest_seconds",
		"For how long the next key has waited, by lane.", "name", "lane")
	orphansTotal = describe("homeostat_orphans_total",
		"Names that were enqueued because their object was deleted.", "controller")
	sweepErrors = describe("homeostat_sweep_errors_total",
		"Sweeps that enqueued no orphan, because the names could not be listed or the safety limit refused "+
			"them.", "controller")
	sweepRefused = describe("homeostat_sweep_refused_orphans",
		"Orphans that the safety limit holds back: more than names.Options.MaxCount and MaxShare allow. "+
			"If they were indeed deleted, let one sweep pass with Sweep.Confirm or names.Options.Confirmed.", "controller")
)

// queue sends the state of a controller's queue. client-go's queues have no
// lanes, so metrics that exist in client-go as well are sums over the lanes.
func (s sender) queue(name string, stats queue.Stats) {
	waiting, dispatched, waited := 0, uint64(0), 0.0
	buckets := map[float64]uint64{}
	for l, lane := range stats.Lanes {
		label := queue.Lane(l).String() //nolint:gosec // one of three
		s.gauge(float64(lane.Depth), laneDepth, name, label)
		s.gauge(lane.Oldest.Seconds(), laneOldest, name, label)
		waiting += lane.Depth
		dispatched += lane.Dispatched
		waited += lane.Waited.Seconds()
		cumulative := uint64(0)
		// The last bucket has no bound: its count is the count of all
		// dispatches.
		for i, n := range lane.Waits[:len(lane.Waits)-1] {
			cumulative += n
			buckets[lane.WaitBound(i).Seconds()] += cumulative
		}
	}
	s.gauge(float64(waiting), depth, name, name)
	s.gauge(float64(stats.Delayed), delayed, name)
	s.gauge(float64(stats.BackingOff), backingOff, name)
	s.gauge(float64(stats.Failing), queueFailing, name)
	s.count(stats.Holds, holds, name)
	s.count(stats.Began, addsTotal, name, name)
	s.gauge(stats.HeldTime.Seconds(), unfinished, name, name)
	s.gauge(stats.OldestHeld.Seconds(), longest, name, name)
	s.histogram(dispatched, waited, buckets, waitSeconds, name, name)
}

// sweep sends the state of the sweeps for orphans, if the controller sweeps.
func (s sender) sweep(name string, sweep *names.Sweep) {
	if sweep == nil {
		return
	}
	stats := sweep.Stats()
	s.count(stats.Orphans, orphansTotal, name)
	s.count(stats.Failures, sweepErrors, name)
	s.gauge(float64(stats.Refused), sweepRefused, name)
}

// master describes the metric that client-go uses for its own leader election.
var master = describe("leader_election_master_status",
	"Whether this replica holds the Lease: 1 on one replica, 0 on the others.", "name")

// leases sends the state of each Lease once, even if several controllers share
// it.
func (s sender) leases(controllers []*reconcile.Controller) {
	held := map[string]bool{}
	for _, c := range controllers {
		if status := c.Status(0); status.LeaseName != "" {
			held[status.LeaseName] = held[status.LeaseName] || status.Phase == inspect.Working
		}
	}
	for name, leads := range held {
		s.gauge(valueOf(leads), master, name)
	}
}

// Slots.
var (
	slotOwned = describe("homeostat_slot_owned",
		"Whether this replica works on the slot: the sum over the replicas is 1.", "controller", "slot")
	slots = describe("homeostat_slots",
		"Slots by state, as this replica sees it: here, elsewhere, claimable or unavailable.", "controller", "state")
	heavyNamespaces = describe("homeostat_heavy_namespaces",
		"Slots with a namespace that had more objects than the fair share of a replica when the ranges were chosen. "+
			"Such a namespace is not divided.", "controller")
	imbalance = describe("homeostat_shard_imbalance",
		"Objects of the replica with the most objects, divided by the mean of all replicas; 0 while balanced or not known. "+
			"Scaling to zero replicas and up again divides the namespaces anew.", "controller")
)

// slots sends the states of the slots of a controller with Shards: a gauge for
// each slot, and the number of slots in each state. If the weights of the slots
// are known, it also sends the number of namespaces that are too heavy, and the
// imbalance.
func (s sender) slots(c *reconcile.Controller, status inspect.Status) {
	if status.Slots == nil {
		return
	}
	// Each state has a count, so that a state without slots is 0 in a graph.
	counts := map[string]int{inspect.Here: 0, inspect.Elsewhere: 0, inspect.Claimable: 0, inspect.Unavailable: 0}
	heavy, weighed := 0, false
	for slot, slotStatus := range status.Slots {
		counts[slotStatus.State]++
		weighed = weighed || slotStatus.Weight > 0
		if slotStatus.Heavy != "" {
			heavy++
		}
		s.gauge(valueOf(slotStatus.State == inspect.Here), slotOwned, c.Name(), strconv.Itoa(slot))
	}
	for state, n := range counts {
		s.gauge(float64(n), slots, c.Name(), state)
	}
	if weighed {
		s.gauge(float64(heavy), heavyNamespaces, c.Name())
		s.gauge(status.Imbalance, imbalance, c.Name())
	}
}
