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

// record returns the line of an address: shop/web has the name web.shop and the
// origin, which ends in a dot.
func record(key types.NamespacedName, origin string, ttl int, address netip.Addr) []byte {
	kind := "A"
	if address.Is6() {
		kind = "AAAA"
	}
	return fmt.Appendf(nil, "%s.%s.%s %d IN %s %s ; managed-by=dns-zone %s/%s\n",
		key.Name, key.Namespace, origin, ttl, kind, address, key.Namespace, key.Name)
}

// set makes want the lines of a key, and reports whether that changed anything. Our
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

// placeFor returns where lines go: before the given one, else behind our last
// line, else at the end.
func (z *zone) placeFor(before int) int {
	if before >= 0 {
		return before
	}
	end := len(z.lines)
	for i, l := range slices.Backward(z.lines) {
		if l.ours {
			end = i + 1
			break
		}
	}
	if end > 0 && !bytes.HasSuffix(z.lines[end-1].text, []byte("\n")) {
		last := &z.lines[end-1]
		last.text = append(slices.Clone(last.text), '\n')
	}
	return end
}

func compare(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// text returns the file with a serial.
func (z *zone) text(serial uint32) []byte {
	var out []byte
	for i, l := range z.lines {
		if i == z.soa {
			out = append(out, l.text[:z.from]...)
			out = strconv.AppendUint(out, uint64(serial), 10)
			out = append(out, l.text[z.to:]...)
			continue
		}
		out = append(out, l.text...)
	}
	return out
}
