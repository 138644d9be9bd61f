package shard

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/slots"
)

// How the time in reconciles is measured.
const (
	measureEvery = time.Minute
	// arriving is how long the reconciles of a new slot do not count: all its keys are reconciled then.
	arriving = 5 * time.Minute
	// firstSamples is how many samples the first result needs, and smoothing how many it is averaged over.
	firstSamples = 10
	smoothing    = 120
)

// meters measure the time in reconciles of each slot.
type meters map[int]*meter

type meter struct {
	since   time.Time // when the slot came
	at      time.Time // of the last sample
	busy    time.Duration
	samples int
	rate    float64 // time in reconciles of each second
}

// measure takes a sample of each slot, and returns their costs.
func (m meters) measure(d *division, w slots.Work, now time.Time) map[int]load {
	measured := map[int]load{}
	for slot, b := range w.Slots {
		of := m[slot]
		if of == nil || !of.since.Equal(b.Since) {
			of = &meter{since: b.Since}
			m[slot] = of
		}
		of.sample(now, b.Time)
		l := load{Measured: of.samples >= firstSamples}
		if l.Measured {
			l.Busy = bounded(of.rate * 1e6)
		}
		measured[slot] = l
	}
	maps.DeleteFunc(m, func(slot int, _ *meter) bool { _, here := measured[slot]; return !here })
	for name, objects := range w.Objects {
		if l, here := measured[d.slotOf(keyspace.Of(name))]; here {
			l.Objects = bounded(float64(l.Objects) + float64(objects))
			measured[d.slotOf(keyspace.Of(name))] = l
		}
	}
	return measured
}

// sample notes how much time the reconciles of the slot have taken so far.
func (m *meter) sample(now time.Time, busy time.Duration) {
	passed, took := now.Sub(m.at), busy-m.busy
	counts := !m.at.IsZero() && passed > measureEvery/2 && m.at.Sub(m.since) >= arriving
	m.at, m.busy = now, busy
	if !counts {
		return
	}
	m.samples++
	m.rate += (took.Seconds()/passed.Seconds() - m.rate) / float64(min(m.samples, smoothing))
}

// bounded limits n to the range of a load's numbers.
func bounded(n float64) int64 { return int64(math.Round(max(0, min(n, 1<<loadBits-1)))) }

// detailed adds the cuts and the heaviest namespace to the heavy ones of the measured slots, the heaviest first. all
// are the loads of all slots.
func (d *division) detailed(measured map[int]load, all []load, members int, objects map[string]int) {
	all = slices.Clone(all)
	for slot, l := range measured {
		all[slot] = l
	}
	weights, _ := weigh(all, members)
	limit := detailedFrom * sum(weights) / float64(len(weights))
	heavy := slices.DeleteFunc(slices.Collect(maps.Keys(measured)), func(slot int) bool {
		return weights[slot] <= limit
	})
	slices.SortFunc(heavy, func(a, b int) int { return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a, b)) })
	names := map[int][]string{}
	for _, slot := range heavy[:min(len(heavy), maxDetailed)] {
		names[slot] = []string{}
	}
	for name := range objects {
		if slot := d.slotOf(keyspace.Of(name)); names[slot] != nil && objects[name] > 0 {
			names[slot] = append(names[slot], name)
		}
	}
	for slot, of := range names {
		l := measured[slot]
		l.detail(of, objects)
		measured[slot] = l
	}
}

// detailedFrom is how much heavier than the mean a slot must be to have cuts.
const detailedFrom = 1.5

// detail sets the cuts and the heaviest of the namespaces of the slot.
func (l *load) detail(names []string, objects map[string]int) {
	var all []*weighed
	for _, name := range names {
		n := objects[name]
		all = append(all, &weighed{keyspace.Of(name), float64(n)})
		if int64(n)*2 > l.Objects {
			l.Top, l.TopObjects = name, int64(n)
		}
	}
	sortByHash(all)
	l.Cuts = quantiles(joined(all))
}

// quantiles returns the cuts that divide namespaces, which are sorted, into 16 parts that are as equal as possible,
// or separate all of them if there are at most 16.
func quantiles(names []*weighed) (cuts []cut) {
	before, total := make([]float64, len(names)), 0.0 // the objects before each
	for n, w := range names {
		before[n] = total
		total += w.weight
	}
	last := 0
	for n := range maxCuts {
		at := n + 1
		if len(names) > maxCuts+1 {
			at = nearest(before, total*float64(n+1)/(maxCuts+1))
		}
		if at <= last || at >= len(names) {
			continue
		}
		low, high := names[at-1].hash, names[at].hash
		cuts = append(cuts, cut{low + (high-low)/2 + 1, int64(before[at])})
		last = at
	}
	return cuts
}

// nearest returns the index of the number closest to n. The numbers ascend.
func nearest(numbers []float64, n float64) int {
	at, _ := slices.BinarySearch(numbers, n)
	if at == len(numbers) || at > 0 && n-numbers[at-1] < numbers[at]-n {
		at--
	}
	return at
}
