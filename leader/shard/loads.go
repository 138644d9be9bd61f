package shard

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/slots"
)

// load is what a slot costs its owner.
type load struct {
	known    bool  // its owner has published it
	measured bool  // busy is known
	objects  int64 // of the primary kind that are cached
	busy     int64 // microseconds of each second that its reconciles take; those that run at once add up
	// cuts are where the range can be divided, and top is its heaviest namespace, if it has more than half of the
	// objects, with topObjects. Only slots that are heavy beside the others have them.
	cuts       []cut
	top        string
	topObjects int64
}

// cut is a bound between two namespaces of a range.
type cut struct {
	at     uint64 // the first hash of the second part
	before int64  // objects of the first part
}

// The bounds of what a member publishes.
const (
	loadBits    = 40       // of a number: no sum of them overflows or loses digits
	maxCuts     = 15       // of a slot: its range can be divided into 16 parts
	maxDetailed = 8        // slots with cuts
	maxLoadText = 96 << 10 // more than 1024 slots and all cuts take
)

// unmeasured is written in place of a busy time that is not known.
const unmeasured = "-"

// formatLoads returns what a member publishes: its process, the version of the ranges, and a list of
//
//	slot:objects:busy
//	slot:objects:busy:at=before,at=before:top=objects
//
// where at is hexadecimal.
func formatLoads(process string, version int, of map[int]load) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d", process, version)
	for _, slot := range slices.Sorted(maps.Keys(of)) {
		l := of[slot]
		busy := unmeasured
		if l.measured {
			busy = strconv.FormatInt(l.busy, 10)
		}
		fmt.Fprintf(&b, " %d:%d:%s", slot, l.objects, busy)
		if len(l.cuts) == 0 && l.top == "" {
			continue
		}
		cuts := make([]string, len(l.cuts))
		for n, c := range l.cuts {
			cuts[n] = fmt.Sprintf("%x=%d", c.at, c.before)
		}
		b.WriteString(":" + strings.Join(cuts, ",") + ":")
		if l.top != "" {
			fmt.Fprintf(&b, "%s=%d", l.top, l.topObjects)
		}
	}
	return b.String()
}

// parseLoads reads what formatLoads has written. It returns nil if it is that of a process other than the holder's, or
// about ranges of another version, or if another client has edited it: then no load is known.
func (d *division) parseLoads(text, holder string) map[int]load {
	process, rest, _ := strings.Cut(text, " ")
	version, list, _ := strings.Cut(rest, " ")
	if len(text) > maxLoadText || process == "" || !strings.HasPrefix(holder, process+".") ||
		version != strconv.Itoa(d.version) {
		return nil
	}
	of := map[int]load{}
	for field := range strings.FieldsSeq(list) {
		slot, l, err := d.parseLoad(field)
		if err != nil || of[slot].known {
			return nil
		}
		of[slot] = l
	}
	return of
}

var errLoad = errors.New("no load of a slot")

// parseLoad reads one entry.
func (d *division) parseLoad(field string) (slot int, l load, err error) {
	parts := strings.Split(field, ":")
	if len(parts) != 3 && len(parts) != 5 {
		return 0, load{}, errLoad
	}
	n, err := strconv.ParseUint(parts[0], 10, 16)
	if err != nil || n >= uint64(len(d.bounds)) {
		return 0, load{}, errLoad
	}
	slot, l.known, l.measured = int(n), true, parts[2] != unmeasured
	if l.objects, err = parseNumber(parts[1]); err != nil {
		return 0, load{}, err
	}
	if l.measured {
		if l.busy, err = parseNumber(parts[2]); err != nil {
			return 0, load{}, err
		}
	}
	if len(parts) == 3 {
		return slot, l, nil
	}
	of := d.rangeOf(slot)
	l.cuts, err = parseCuts(parts[3], of, l.objects)
	if err == nil && parts[4] != "" {
		l.top, l.topObjects, err = parseTop(parts[4], of, l.objects)
	}
	return slot, l, err
}

func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, loadBits)
	return int64(n), err //nolint:gosec // of loadBits
}

// parseCuts reads the cuts of a range with N objects: they ascend, and no part is empty.
func parseCuts(text string, of keyspace.Range, objects int64) ([]cut, error) {
	var cuts []cut
	last := cut{at: of.First}
	for field := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		at, before, _ := strings.Cut(field, "=")
		hash, err := strconv.ParseUint(at, 16, 64)
		n, err2 := parseNumber(before)
		if err != nil || err2 != nil || len(cuts) == maxCuts || hash <= last.at || hash > of.Last ||
			n <= last.before || n >= objects {
			return nil, errLoad
		}
		last = cut{hash, n}
		cuts = append(cuts, last)
	}
	return cuts, nil
}

// parseTop reads the heaviest namespace of a range with N objects.
func parseTop(text string, of keyspace.Range, objects int64) (name string, n int64, err error) {
	name, number, _ := strings.Cut(text, "=")
	n, err = parseNumber(number)
	hash := keyspace.Of(name)
	if err != nil || n > objects || hash < of.First || hash > of.Last || len(validation.IsDNS1123Label(name)) > 0 {
		return "", 0, errLoad
	}
	return name, n, nil
}

// How the time in reconciles is measured.
const (
	measureEvery = time.Minute
	// arriving is how long the reconciles of a slot that has come do not count: all its keys are reconciled then.
	arriving = 5 * time.Minute
	// firstSamples are needed for a number, and smoothing is over how many it is averaged.
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

// measure takes a sample of each slot, and returns what they cost.
func (m meters) measure(d *division, w slots.Work, now time.Time) map[int]load {
	measured := map[int]load{}
	for slot, b := range w.Slots {
		of := m[slot]
		if of == nil || !of.since.Equal(b.Since) {
			of = &meter{since: b.Since}
			m[slot] = of
		}
		of.sample(now, b.Time)
		l := load{known: true, measured: of.samples >= firstSamples}
		if l.measured {
			l.busy = bounded(of.rate * 1e6)
		}
		measured[slot] = l
	}
	maps.DeleteFunc(m, func(slot int, _ *meter) bool { return !measured[slot].known })
	for name, objects := range w.Objects {
		if l, here := measured[d.slotOf(keyspace.Of(name))]; here {
			l.objects = bounded(float64(l.objects) + float64(objects))
			measured[d.slotOf(keyspace.Of(name))] = l
		}
	}
	return measured
}

// sample notes how much time the reconciles of the slot have taken until now.
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

// bounded returns a number of a load.
func bounded(n float64) int64 { return int64(math.Round(max(0, min(n, 1<<loadBits-1)))) }

// detailed adds the cuts and the heaviest namespace to those of the measured slots that are heavy, the heaviest first.
// all are the loads of all slots.
func (d *division) detailed(measured map[int]load, all []load, members int, objects map[string]int) {
	all = slices.Clone(all)
	for slot, l := range measured {
		all[slot] = l
	}
	weights, _ := weigh(all, members)
	total := 0.0
	for _, w := range weights {
		total += w
	}
	heavy := slices.DeleteFunc(slices.Collect(maps.Keys(measured)), func(slot int) bool {
		return weights[slot] <= detailedFrom*total/float64(len(weights))
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
		if int64(n)*2 > l.objects {
			l.top, l.topObjects = name, int64(n)
		}
	}
	sortByHash(all)
	l.cuts = quantiles(joined(all))
}

// quantiles returns the cuts that divide namespaces, which are sorted, into 16 parts as equal as they allow, or each
// from the others if there are no more than 16.
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

// nearest returns the index of the number, of ascending ones, that is nearest to n.
func nearest(numbers []float64, n float64) int {
	at, _ := slices.BinarySearch(numbers, n)
	if at == len(numbers) || at > 0 && n-numbers[at-1] < numbers[at]-n {
		at--
	}
	return at
}
