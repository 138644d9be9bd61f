package shard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// division holds the ranges of all slots: range n begins at bounds[n], ends before
// bounds[n+1], and belongs to slots[n]. All replicas eventually have the same.
type division struct {
	// version counts from 1 the divisions with other ranges than the last. since is, by slot, the version that set
	// the slot's present range.
	version int
	since   []int
	uid     string // of the record of the configuration

	bounds  []uint64         // ascending; the first is 0
	slots   []int            // each once
	weights []float64        // by slot
	heavy   []namespaceShare // the heaviest first
}

// leaving returns the slots whose ranges differ in next. It reports false if next is not a later division of the same
// slots, but comes from a rewritten record.
func (d *division) leaving(next *division) (slots []int, follows bool) {
	if next.uid != d.uid {
		return nil, false
	}
	for slot, since := range next.since {
		switch {
		case since > d.version:
			slots = append(slots, slot)
		case since != d.since[slot] || next.rangeOf(slot) != d.rangeOf(slot):
			return nil, false
		}
	}
	return slots, true
}

// with returns the next division: with these bounds, whose slots are in their order, and
// weights by slot. It is of the next version if a slot gets a range that it does not have
// now. The arguments are retained.
func (d *division) with(bounds []uint64, slots []int, weights []float64) *division {
	next := &division{
		version: d.version, since: slices.Clone(d.since), bounds: bounds, slots: slots, weights: weights, heavy: d.heavy,
	}
	for slot := range d.slots {
		if next.rangeOf(slot) != d.rangeOf(slot) {
			next.version = d.version + 1
			next.since[slot] = next.version
		}
	}
	return next
}

// moved returns the slots whose ranges were set by this version, ascending, or none for
// the first version.
func (d *division) moved() (slots []int) {
	for slot, since := range d.since {
		if since == d.version && d.version > 1 {
			slots = append(slots, slot)
		}
	}
	return slots
}

// slotOf returns the slot of a hash.
func (d *division) slotOf(hash uint64) int {
	at, found := slices.BinarySearch(d.bounds, hash)
	if !found {
		at--
	}
	return d.slots[at]
}

// rangeOf returns the range of a slot.
func (d *division) rangeOf(slot int) keyspace.Range {
	at := slices.Index(d.slots, slot)
	r := keyspace.Range{First: d.bounds[at], Last: math.MaxUint64}
	if at+1 < len(d.bounds) {
		r.Last = d.bounds[at+1] - 1
	}
	return r
}

// current is the division that keys are divided by. Any goroutine may read it.
type current struct {
	equal    *division                // equal ranges, until the recorded ones are known
	division atomic.Pointer[division] // nil until then
}

// divided returns the ranges, or equal ones before they are known.
func (c *current) divided() *division {
	if d := c.division.Load(); d != nil {
		return d
	}
	return c.equal
}

func (c *current) slotOf(namespace string) int { return c.divided().slotOf(keyspace.Of(namespace)) }

// String returns the form written to the API server: a field for each range, with its bound
// and weight. In later versions than the first, a field also has the slot and the version
// that set its range: replicas that do not support changing ranges cannot read them.
func (d *division) String() string {
	var b strings.Builder
	for n, bound := range d.bounds {
		slot := d.slots[n]
		fmt.Fprintf(&b, "%x:%.4g", bound, d.weights[slot])
		if d.version > 1 {
			fmt.Fprintf(&b, ":%d:%d", slot, d.since[slot])
		}
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// parseDivision parses the output of String.
func parseDivision(text string, slots int) (*division, error) {
	d := &division{version: 1, since: make([]int, slots), weights: make([]float64, slots)}
	fields := strings.Fields(text)
	if len(fields) != slots {
		return nil, fmt.Errorf("%w: %d ranges are recorded for %d slots", ErrConfig, len(fields), slots)
	}
	for n, field := range fields {
		if !d.parse(n, field) {
			return nil, fmt.Errorf("%w: the recorded ranges have %q", ErrConfig, field)
		}
	}
	if text != d.String() { // such as fields of the first version in one of the second
		return nil, fmt.Errorf("%w: the recorded ranges are not written as replicas write them", ErrConfig)
	}
	return d, nil
}

// parse adds the range in a field, and reports false if the field is invalid.
func (d *division) parse(n int, field string) bool {
	parts := strings.Split(field, ":")
	if len(parts) == 2 {
		parts = append(parts, strconv.Itoa(n), "1")
	}
	if len(parts) != 4 {
		return false
	}
	bound, _ := strconv.ParseUint(parts[0], 16, 64) // parseDivision refuses what is not a number
	weight, _ := strconv.ParseFloat(parts[1], 64)
	slot, _ := strconv.Atoi(parts[2])
	since, _ := strconv.ParseInt(parts[3], 10, 32)
	switch {
	case n == 0 && bound != 0, n > 0 && bound <= d.bounds[n-1]:
		return false
	case math.IsNaN(weight) || weight < 0 || weight > math.MaxFloat64:
		return false
	case slot < 0 || slot >= len(d.since) || d.since[slot] != 0 || since < 1:
		return false
	}
	d.bounds, d.slots = append(d.bounds, bound), append(d.slots, slot)
	d.weights[slot], d.since[slot] = weight, int(since)
	d.version = max(d.version, d.since[slot])
	return true
}

// heavyAnnotation lists the namespaces that may be too heavy for a replica.
const heavyAnnotation = "leader.homeostat.dev/heavy"

// heavyShare is the smallest share of all objects that is recorded: a lighter namespace
// is light even for one of 64 replicas.
const heavyShare = 1.0 / 64

// namespaceShare is a namespace with its share of all objects.
type namespaceShare struct {
	Name  string
	Share float64
}

// heaviestOf returns the namespaces with more than heavyShare of all objects, the heaviest first.
func heaviestOf[N int | int64](namespaces map[string]N, total float64) (all []namespaceShare) {
	for name, objects := range namespaces {
		if share := float64(objects) / total; share > heavyShare {
			all = append(all, namespaceShare{name, share})
		}
	}
	slices.SortFunc(all, func(a, b namespaceShare) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// formatHeavy returns the recorded form.
func formatHeavy(all []namespaceShare) string {
	text, _ := json.Marshal(all) // strings and numbers have no errors
	return string(text)
}

// parseHeavy parses the output of formatHeavy, which is only shown. It returns nothing if another client has edited it.
func parseHeavy(text string) (all []namespaceShare) {
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}
