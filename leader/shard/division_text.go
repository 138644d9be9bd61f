package shard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// String returns what is written to the API server: a field for each range, with its bound
// and weight. Those of later versions than the first have the slot, too, and since when
// it has the range: replicas that do not know that ranges change do not read them.
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

// parseDivision reads what String has written.
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

// parse adds the range of a field, and reports false if it is none.
func (d *division) parse(n int, field string) bool {
	parts := strings.Split(field, ":")
	if len(parts) == 2 {
		parts = append(parts, strconv.Itoa(n), "1")
	}
	if len(parts) != 4 {
		return false
	}
	bound, err := strconv.ParseUint(parts[0], 16, 64)
	weight, err2 := strconv.ParseFloat(parts[1], 64)
	slot, err3 := strconv.Atoi(parts[2])
	since, err4 := strconv.ParseInt(parts[3], 10, 32)
	switch {
	case err != nil || err2 != nil || err3 != nil || err4 != nil:
		return false
	case n == 0 && bound != 0, n > 0 && bound <= d.bounds[n-1]:
		return false
	case math.IsNaN(weight) || math.IsInf(weight, 0) || weight < 0:
		return false
	case slot < 0 || slot >= len(d.since) || d.since[slot] != 0 || since < 1:
		return false
	}
	d.bounds, d.slots = append(d.bounds, bound), append(d.slots, slot)
	d.weights[slot], d.since[slot] = weight, int(since)
	d.version = max(d.version, d.since[slot])
	return true
}
