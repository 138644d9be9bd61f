package zonefile

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// record returns the line of the zone file for an address of a key. The
// record's name is made of the key and the origin. For example, Service
// shop/web with the origin cluster.example. gets the name
// web.shop.cluster.example.
func record(key types.NamespacedName, origin string, ttl int, address netip.Addr) []byte {
	kind := "A"
	if address.Is6() {
		kind = "AAAA"
	}
	return fmt.Appendf(nil, "%s.%s.%s %d IN %s %s ; managed-by=dns-zone %s/%s\n",
		key.Name, key.Namespace, origin, ttl, kind, address, key.Namespace, key.Name)
}

// set replaces the lines of a key with want, and reports whether that changed
// the zone. It keeps our lines in the order of their keys, unless a person has
// moved them.
func (z *zone) set(key types.NamespacedName, want [][]byte) (changed bool) {
	isKeys := func(l line) bool { return l.isOurs && l.key == key }
	var current [][]byte
	place, soa := slices.IndexFunc(z.lines, isKeys), z.soa
	for i, l := range z.lines {
		if isKeys(l) {
			current = append(current, l.text)
		} else if place < 0 && l.isOurs && compare(l.key, key) > 0 {
			place = i
		}
	}
	if slices.EqualFunc(current, want, bytes.Equal) {
		return false
	}
	place = z.placeFor(place)
	var lines []line
	for i := 0; i <= len(z.lines); i++ {
		if i == place {
			for _, text := range want {
				lines = append(lines, line{text, key, true})
			}
		}
		if i == z.soa {
			soa = len(lines)
		}
		if i < len(z.lines) && !isKeys(z.lines[i]) {
			lines = append(lines, z.lines[i])
		}
	}
	z.lines, z.soa = lines, soa
	return true
}

// placeFor returns the index at which to insert the lines of a key. following
// is the index of the first line that the key has already or, if it has none,
// of the first line of a later key. placeFor returns following unless it is
// negative. Otherwise it returns the index after our last line, or the end of
// the file if there are no lines of ours. It then also adds a missing line end
// to the line before that index.
func (z *zone) placeFor(following int) int {
	if following >= 0 {
		return following
	}
	end := len(z.lines)
	for i, l := range slices.Backward(z.lines) {
		if l.isOurs {
			end = i + 1
			break
		}
	}
	if end > 0 && !bytes.HasSuffix(z.lines[end-1].text, []byte("\n")) {
		tail := &z.lines[end-1]
		tail.text = append(slices.Clone(tail.text), '\n')
	}
	return end
}

func compare(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// text returns the text of the zone file with the given serial.
func (z *zone) text(serial uint32) []byte {
	var text []byte
	for i, l := range z.lines {
		if i == z.soa {
			text = append(text, l.text[:z.start]...)
			text = strconv.AppendUint(text, uint64(serial), 10)
			text = append(text, l.text[z.end:]...)
			continue
		}
		text = append(text, l.text...)
	}
	return text
}
