package shard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat/homeostat/internal/keyspace"
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

const (
	// idle is a twentieth of each second. While the reconciles of a replica take less, mostly the objects count: so
	// little time is not worth a move, and is measured badly.
	idle = 50_000
	// few objects more than the mean are not worth a move.
	few = 10
)

// weigh returns the weight of each slot: the mean of its part of all objects and of its part of all time in reconciles.
// To that time idle is added for each member, divided as the objects are. byTime is what of the weight is time that has
// been measured.
func weigh(of []load, members int) (weights, byTime []float64) {
	var objects, busy float64
	for _, l := range of {
		objects, busy = objects+float64(l.objects), busy+float64(l.busy)
	}
	weights, byTime = make([]float64, len(of)), make([]float64, len(of))
	little := idle * float64(max(1, members))
	for slot, l := range of {
		part := float64(l.objects) / max(objects, 1)
		byTime[slot] = float64(l.busy) / (busy + little) / 2
		weights[slot] = part/2 + little*part/(busy+little)/2 + byTime[slot]
	}
	return weights, byTime
}
