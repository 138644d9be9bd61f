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

// record returns the line of an address. For example, the name of shop/web is
// web.shop followed by the origin, which ends in a dot.
func record(key types.NamespacedName, origin string, ttl int, address netip.Addr) []byte {
	kind := "A"
	if address.Is6() {
		kind = "AAAA"
	}
	return fmt.Appendf(nil, "%s.%s.%s %d IN %s %s ; managed-by=dns-zone %s/%s\n",
		key.Name, key.Namespace, origin, ttl, kind, address, key.Namespace, key.Name)
}

// set replaces the lines of a key by want, and reports whether they differ. Our
// lines are in the order of their keys, unless an editor has moved them.
func (z *zone) set(key types.NamespacedName, want [][]byte) (changed bool) {
	isKeys := func(l line) bool { return l.ours && l.key == key }
	var have [][]byte
	place, soa := slices.IndexFunc(z.lines, isKeys), z.soa
	for i, l := range z.lines {
		if isKeys(l) {
			have = append(have, l.text)
		} else if place < 0 && l.ours && compare(l.key, key) > 0 {
			place = i
		}
	}
	if slices.EqualFunc(have, want, bytes.Equal) {
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

// placeFor returns the place for new lines: before the line following if it is
// not negative, otherwise after our last line, and otherwise at the end.
func (z *zone) placeFor(following int) int {
	if following >= 0 {
		return following
	}
	end := len(z.lines)
	for i, l := range slices.Backward(z.lines) {
		if l.ours {
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

// text returns the file with a serial.
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
