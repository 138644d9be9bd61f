package status

import (
	"slices"
	"time"

	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// report is the content of the overview page, and its JSON. It contains the
// names, kinds and resourceVersions of objects, but not their contents.
type report struct {
	Time        time.Time          `json:"time"`
	Controllers []controllerReport `json:"controllers"`
	Informers   []informerReport   `json:"informers"`
	Problems    []problem          `json:"problems"`
}

// problem is a failed check of /readyz. A mild problem leaves the process
// ready.
type problem struct {
	Check  string `json:"check"`
	Reason string `json:"reason"`
	Mild   bool   `json:"mild,omitempty"`
}

// controllerReport describes a controller, its queue and its sweeps. Counts are
// since the start of the process.
type controllerReport struct {
	Name   string        `json:"name"`
	Kind   string        `json:"kind"`
	Phase  inspect.Phase `json:"phase"`
	Leader string        `json:"leader,omitempty"`
	Slots  []slotReport  `json:"slots,omitempty"`
	// Imbalance is inspect.Status.Imbalance.
	Imbalance float64         `json:"imbalance,omitempty"`
	Triggers  []triggerReport `json:"triggers"`
	Outputs   []outputReport  `json:"outputs"`
	// Workers is how many reconciles may run at once, apart from stuck ones.
	// Active is how many are running, including stuck ones.
	Workers int `json:"workers"`
	Active  int `json:"active"`
	// Reconciles counts reconciles by inspect.Outcome. An outcome that has not
	// occurred has the count 0.
	Reconciles map[string]uint64 `json:"reconciles"`
	// HeldBack, Overdue, HotLoops and Failing are the fields of inspect.Stats,
	// where they are explained.
	HeldBack uint64 `json:"heldBack"`
	Overdue  uint64 `json:"overdue"`
	HotLoops uint64 `json:"hotLoops"`
	Failing  int    `json:"failing"`
	// Held is the number of keys that workers hold, and Delayed the number of
	// keys that will be dispatched later, as in queue.Stats.
	Held    int `json:"held"`
	Delayed int `json:"delayed"`
	// BackingOff is the number of delayed keys that wait for the end of their
	// back-off. Retrying is the number of keys that have failures, the field
	// Failing of queue.Stats.
	BackingOff int          `json:"backingOff"`
	Retrying   int          `json:"retrying"`
	Lanes      []laneReport `json:"lanes"`
	Sweep      *sweepReport `json:"sweep,omitempty"`
	Keys       []keyReport  `json:"keys"`
	More       bool         `json:"more"` // whether there are more keys than requested
}

// slotReport describes the owner of a slot, as this replica sees it.
type slotReport struct {
	State string    `json:"state"` // here, elsewhere, claimable or unavailable
	Owner string    `json:"owner,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Weight and Heavy are the fields of inspect.SlotStatus, where they are
	// explained.
	Weight float64 `json:"weight,omitempty"`
	Heavy  string  `json:"heavy,omitempty"`
}

// triggerReport describes an informer or an external trigger that causes
// reconciles.
type triggerReport struct {
	Informer string `json:"informer"`
	Kind     string `json:"kind"`
	Type     string `json:"type"`
}

// outputReport describes a kind whose objects the controller writes. Watched
// reports whether a trigger of the controller watches that kind.
type outputReport struct {
	Kind    string `json:"kind"`
	Watched bool   `json:"watched"`
}

// laneReport describes the keys that wait in a lane.
type laneReport struct {
	Lane string `json:"lane"`
	// Depth is the number of waiting keys. Oldest is the longest time that the
	// next key of any group has waited, in seconds, or 0 if Depth is 0.
	Depth  int     `json:"depth"`
	Oldest float64 `json:"oldestSeconds"`
	// Dispatched counts the keys that workers have taken from the lane.
	Dispatched uint64 `json:"dispatched"`
}

// sweepReport describes the sweeps for orphans.
type sweepReport struct {
	// Known is the number of names in scope in the last sweep that compared
	// them, as in names.Stats.
	Known int `json:"known"`
	// Orphans counts the names that were enqueued. Failures counts the sweeps
	// that failed or were refused.
	Orphans  uint64    `json:"orphans"`
	Failures uint64    `json:"failures"`
	Last     time.Time `json:"lastSuccess,omitzero"`
	// Problem is why orphans are not cleaned up, such as the error of the last
	// sweep, or "" if they are.
	Problem string `json:"problem,omitempty"`
}

// keyReport describes a key in the queue, or one whose last reconcile gave up.
type keyReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     string `json:"state"` // held, delayed, waiting, standby or resting
	Lane      string `json:"lane,omitempty"`
	// Attempt is the number of the current attempt: 1 plus the number of
	// consecutive failures that preceded it.
	Attempt int `json:"attempt"`
	// Since is when the key began to wait or was dispatched. Next is when the
	// delay of a delayed key ends.
	Since time.Time `json:"since,omitzero"`
	Next  time.Time `json:"next,omitzero"`
	// Backoff means that a delayed key waits for the end of its back-off,
	// OnHold that it waits for the caches. A key with neither waits for a
	// timer.
	Backoff bool `json:"backingOff,omitempty"`
	OnHold  bool `json:"onHold,omitempty"`
	// Readded means that a held key was added in the meantime, and will be
	// reconciled once more.
	Readded bool          `json:"again,omitempty"`
	Causes  []causeReport `json:"causes"`
	// Error is the first line of the error of the last reconcile, or "" if it
	// succeeded.
	Error    string    `json:"error,omitempty"`
	FailedAt time.Time `json:"failedAt,omitzero"`
}

// causeReport is a change that led to a reconcile. Merged is the number of
// further changes that are not listed, as in queue.Cause.
type causeReport struct {
	Trigger    string `json:"trigger"`
	Type       string `json:"change"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	OldVersion string `json:"oldVersion,omitempty"`
	NewVersion string `json:"newVersion,omitempty"`
	Merged     int    `json:"merged,omitempty"`
}

// informerReport describes an informer and the controllers that use it.
type informerReport struct {
	Name        string   `json:"name"`
	Kind        string   `json:"kind"`
	Controllers []string `json:"controllers"`
	Synced      bool     `json:"synced"`
	Reason      string   `json:"reason,omitempty"` // why it is not synced
	// Namespaces, LabelSelector and FieldSelector define the watched part of
	// the kind. Without Namespaces, all namespaces are watched.
	Namespaces    []string `json:"namespaces,omitempty"`
	LabelSelector string   `json:"labelSelector,omitempty"`
	FieldSelector string   `json:"fieldSelector,omitempty"`
	MetadataOnly  bool     `json:"metadataOnly,omitempty"`
	Objects       int      `json:"objects"`
	// Referenced is set for a cache of objects that other objects refer to.
	// References is how many it holds or waits for, and OpenWatches is the
	// number of its open watches.
	Referenced  bool `json:"referenced,omitempty"`
	References  int  `json:"references,omitempty"`
	OpenWatches int  `json:"openWatches,omitempty"`

	Bytes   int64  `json:"bytes"` // an estimate
	Version string `json:"version"`
	// LastActivity is when the least recently active watch last received data,
	// as in informer.Status.
	LastActivity time.Time `json:"lastActivity,omitzero"`
	WatchSince   time.Time `json:"watchSince,omitzero"`
	Lag          float64   `json:"lagSeconds"` // age of the oldest undelivered change
	LastError    string    `json:"lastError,omitempty"`
	// The counts are the fields of informer.Status, where they are explained.
	Lists    int64 `json:"lists"`
	Watches  int64 `json:"watches"`
	Stalls   int64 `json:"stalls"`
	Restores int64 `json:"restores,omitempty"`
	Failures int64 `json:"failures"`
	Events   int64 `json:"events"`
}

// reportOf returns the current state. Its problems are the failures that
// /readyz names. They include the findings in checked, for which other code was
// called. The report lists at most maxKeys keys of each controller. reportOf
// does not wait for a reconcile, and sends no request.
func reportOf(s *sources, checked []finding, maxKeys int) *report {
	r := &report{
		Time: time.Now(), Controllers: []controllerReport{}, Informers: []informerReport{}, Problems: []problem{},
	}
	seen := s.look()
	for _, c := range s.Controllers {
		r.Controllers = append(r.Controllers, controllerOf(c, seen.informers, maxKeys))
	}
	for _, i := range seen.informers {
		r.Informers = append(r.Informers, informerReport{
			Name: i.Name, Kind: i.Kind, Controllers: i.Controllers,
			Synced: i.Synced, Reason: i.Reason,
			Namespaces: i.Namespaces, LabelSelector: i.LabelSelector, FieldSelector: i.FieldSelector,
			MetadataOnly: i.MetadataOnly, Objects: i.Objects, Bytes: i.Size(), Version: i.ResourceVersion,
			LastActivity: i.LastActivity, WatchSince: i.WatchSince, Lag: i.Lag.Seconds(),
			Referenced: i.Referenced, References: i.References, OpenWatches: i.OpenWatches,
			LastError: i.LastError,
			Lists:     i.Lists, Watches: i.Watches, Stalls: i.Stalls, Failures: i.Failures, Events: i.Events,
			Restores: i.Restores,
		})
	}
	for _, f := range findingsOf(&s.Options, seen, checked) {
		if f.err != nil {
			r.Problems = append(r.Problems, problem{plain(f.name), oneLine(f.err.Error()), f.mild})
		}
	}
	return r
}

// controllerOf returns the report of one controller.
func controllerOf(c *reconcile.Controller, informers []inspect.InformerStatus, maxKeys int) controllerReport {
	// One key more than the page shows, to find out whether there are more.
	status, stats, q := c.Status(maxKeys+1), c.Stats(), c.QueueStats()
	r := controllerReport{
		Name: status.Name, Kind: status.Kind, Phase: status.Phase, Leader: status.LeaderName,
		Workers: stats.Workers, Active: stats.Active, Reconciles: map[string]uint64{},
		HeldBack: stats.HeldBack, Overdue: stats.Overdue, HotLoops: stats.HotLoops, Failing: stats.Failing,
		Held: q.Held, Delayed: q.Delayed, BackingOff: q.BackingOff, Retrying: q.Failing, Sweep: sweepOf(c),
		Outputs: []outputReport{}, Keys: []keyReport{},
	}
	r.Imbalance = status.Imbalance
	for _, s := range status.Slots {
		r.Slots = append(r.Slots, slotReport{s.State, s.Owner, s.Since, s.Weight, s.Heavy})
	}
	for _, t := range status.Triggers {
		r.Triggers = append(r.Triggers, triggerReport{nameOf(t, informers), t.Kind, t.Type})
	}
	for _, kind := range status.Outputs {
		watched := slices.ContainsFunc(status.Triggers, func(t inspect.TriggerStatus) bool { return t.Kind == kind })
		r.Outputs = append(r.Outputs, outputReport{kind, watched})
	}
	for i, n := range stats.Reconciles {
		r.Reconciles[inspect.Outcome(i).String()] = n //nolint:gosec // a handful of outcomes
	}
	for i, l := range q.Lanes {
		lane := queue.Lane(i).String() //nolint:gosec // one of three
		r.Lanes = append(r.Lanes, laneReport{lane, l.Depth, l.Oldest.Seconds(), l.Dispatched})
	}
	r.More = len(status.Keys) > maxKeys
	for _, k := range status.Keys[:min(len(status.Keys), maxKeys)] {
		r.Keys = append(r.Keys, keyOf(&k, status.Phase))
	}
	return r
}

// nameOf returns the name of a trigger's informer in the report, or the name of
// an external trigger.
func nameOf(t inspect.TriggerStatus, informers []inspect.InformerStatus) string {
	i := slices.IndexFunc(informers, func(i inspect.InformerStatus) bool { return i.Feeds(t) })
	if i < 0 {
		return t.Informer
	}
	return informers[i].Name
}

// sweepOf returns the report of the sweeps, or nil if the controller does not
// sweep.
func sweepOf(c *reconcile.Controller) *sweepReport {
	sweep := c.Sweep()
	if sweep == nil {
		return nil
	}
	stats := sweep.Stats()
	r := &sweepReport{
		Known: stats.Known, Orphans: stats.Orphans, Failures: stats.Failures, Last: stats.LastSuccess,
	}
	if err := sweep.Ready(); err != nil {
		r.Problem = redact.Error(err)
	}
	return r
}

// standby is the state of a key that no worker takes until this replica leads.
const standby = "standby"

// keyOf returns the report of one key. phase is the phase of the key's
// controller.
func keyOf(k *inspect.KeyStatus, phase inspect.Phase) keyReport {
	r := keyReport{
		Namespace: k.Key.Namespace, Name: k.Key.Name, State: k.State.String(), Lane: k.Lane.String(),
		Attempt: k.Failures + 1, Since: k.Since, Next: k.Next,
		Backoff: k.BackingOff, OnHold: k.OnHold, Readded: k.Readded,
		Causes: causesOf(k.Causes), Error: k.Failure, FailedAt: k.FailedAt,
	}
	switch {
	case k.Resting:
		r.State, r.Lane = "resting", ""
	case phase == inspect.Standby && k.State != queue.Held:
		r.State = standby
	}
	return r
}

// causesOf returns the report of causes. It is never nil, so that its JSON is
// not null.
func causesOf(causes []queue.Cause) []causeReport {
	reports := make([]causeReport, 0, len(causes))
	for _, c := range causes {
		reports = append(reports, causeReport(c))
	}
	return reports
}
