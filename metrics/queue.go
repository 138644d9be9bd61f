package metrics

import (
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/queue"
)

// queueLabels are those of controller-runtime, whose queues have their controller's name, too.
var queueLabels = []string{"name", "controller"}

var (
	depth = named("workqueue_depth",
		"Keys that wait for a worker.", queueLabels...)
	addsTotal = named("workqueue_adds_total",
		"How often keys that did not wait were added.", queueLabels...)
	unfinished = named("workqueue_unfinished_work_seconds",
		"For how long workers have held the keys that they hold, in all.", queueLabels...)
	longest = named("workqueue_longest_running_processor_seconds",
		"For how long a worker has held its key, at most.", queueLabels...)
	waitSeconds = named("workqueue_queue_duration_seconds",
		"How long keys waited for a worker.", queueLabels...)
	delayed = named("homeostat_queue_delayed",
		"Keys that wait for their time: a timer, the end of a back-off or of a hold.", "name")
	backingOff = named("homeostat_queue_backing_off",
		"Keys that wait for the end of their back-off.", "name")
	queueFailing = named("homeostat_queue_failing",
		"Keys that are retried: they have failed and not succeeded since.", "name")
	holds = named("homeostat_queue_holds_total",
		"Reconciles after which the key was kept back: for its writes to be seen, or because it was getting nowhere.", "name")
	laneDepth = named("homeostat_queue_lane_depth",
		"Keys that wait for a worker, by lane.", "name", "lane")
	laneOldest = named("homeostat_queue_lane_oldest_seconds",
		"Age of the key that is next, by lane.", "name", "lane")
	orphansTotal = named("homeostat_orphans_total",
		"Names that were enqueued because their object was deleted.", "controller")
	sweepErrors = named("homeostat_sweep_errors_total",
		"Sweeps that cleaned nothing because the names could not be listed or were refused.", "controller")
	sweepRefused = named("homeostat_sweep_refused_orphans",
		"Orphans that the safety limit holds back: more than names.Options.MaxCount and MaxShare allow. "+
			"If they are gone indeed, let one sweep pass with Sweep.Confirm or names.Options.Confirmed.", "controller")
)

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
		below := uint64(0)
		for i, n := range lane.Waits[:len(lane.Waits)-1] {
			below += n
			buckets[lane.WaitBound(i).Seconds()] += below
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

func (s sender) sweep(name string, sweep *names.Sweep) {
	if sweep == nil {
		return
	}
	stats := sweep.Stats()
	s.count(stats.Orphans, orphansTotal, name)
	s.count(stats.Failures, sweepErrors, name)
	s.gauge(float64(stats.Refused), sweepRefused, name)
}
