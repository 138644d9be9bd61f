package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// Division holds the ranges of all slots. The range of slot n begins at
// bounds[n] and ends before bounds[n+1].
type Division struct {
	bounds  []uint64  // the bounds of the ranges, ascending; the first is 0
	Weights []float64 // by slot: number of objects when the ranges were chosen
	Heavy   []Share   // the heavy namespaces, the heaviest first
}

// SlotOf returns the slot of a namespace.
func (d *Division) SlotOf(namespace string) int {
	slot, found := slices.BinarySearch(d.bounds, keyspace.Of(namespace))
	if !found {
		slot--
	}
	return slot
}

// RangeOf returns the range of a slot.
func (d *Division) RangeOf(slot int) keyspace.Range {
	r := keyspace.Range{First: d.bounds[slot], Last: math.MaxUint64}
	if slot+1 < len(d.bounds) {
		r.Last = d.bounds[slot+1] - 1
	}
	return r
}

// String returns the form written to the API server. It has one field for each
// range, with the range's bound and weight.
func (d *Division) String() string {
	var b strings.Builder
	for slot, bound := range d.bounds {
		fmt.Fprintf(&b, "%x:%.4g ", bound, d.Weights[slot])
	}
	return strings.TrimSpace(b.String())
}

// Parse returns the division that String has written as text. The text does not
// contain Heavy.
func Parse(text string, slots int) (*Division, error) {
	d := &Division{}
	fields := strings.Fields(text)
	if len(fields) != slots {
		return nil, fmt.Errorf("%d ranges are recorded for %d slots", len(fields), slots)
	}
	for _, field := range fields {
		if !d.parse(field) {
			return nil, fmt.Errorf("the recorded ranges contain the invalid range %q", field)
		}
	}
	return d, nil
}

// parse adds the range that field describes, such as "8000000000000000:0.5":
// the first hash of the range, and its weight. It reports false if field is
// invalid, or if the range does not follow the last one.
func (d *Division) parse(field string) bool {
	boundText, weightText, _ := strings.Cut(field, ":")
	bound, err := strconv.ParseUint(boundText, 16, 64)
	weight, err2 := strconv.ParseFloat(weightText, 64)
	n := len(d.bounds)
	switch {
	case err != nil || err2 != nil, n == 0 && bound != 0, n > 0 && bound <= d.bounds[n-1]:
		return false
	case math.IsNaN(weight) || weight < 0 || weight > math.MaxFloat64:
		return false
	}
	d.bounds, d.Weights = append(d.bounds, bound), append(d.Weights, weight)
	return true
}

// Shares returns the weight of each slot as a share of the total weight.
func (d *Division) Shares() []float64 {
	total, shares := max(sum(d.Weights), 1e-9), slices.Clone(d.Weights)
	for slot := range shares {
		shares[slot] /= total
	}
	return shares
}

func sum(weights []float64) (total float64) {
	for _, w := range weights {
		total += w
	}
	return total
}

// heavyShare is the share of all objects above which a namespace is recorded as
// heavy. A namespace with a smaller share is light even for one of 64 replicas.
const heavyShare = 1.0 / 64

// Share is a namespace and its share of all objects.
type Share struct {
	Name  string
	Share float64
}

// heaviestOf returns the namespaces with more than heavyShare of all objects,
// the heaviest first.
func heaviestOf(namespaces map[string]int, total float64) (shares []Share) {
	for name, objects := range namespaces {
		if share := float64(objects) / total; share > heavyShare {
			shares = append(shares, Share{name, share})
		}
	}
	slices.SortFunc(shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
	return shares
}

// FormatHeavy returns a text for the record of the ranges. It contains the
// heavy namespaces with their shares. ParseHeavy decodes that text.
func FormatHeavy(shares []Share) string {
	text, _ := json.Marshal(shares) // cannot fail for strings and numbers
	return string(text)
}

// ParseHeavy returns the namespaces that FormatHeavy has written as text. It
// returns nil if the text cannot be decoded, for example because another client
// has edited it. That does no harm, since the namespaces are only shown in the
// status.
func ParseHeavy(text string) (shares []Share) {
	if json.Unmarshal([]byte(text), &shares) != nil {
		return nil
	}
	return shares
}
