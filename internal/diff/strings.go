package diff

// Strings is the patch of one string map of the metadata, of which there is a difference.
func Strings(member string, before, after map[string]string, s Style) Patch {
	w := writer{style: s, buf: make([]byte, 0, firstBytes)}
	w.raw([]byte(`{"metadata":{"`))
	w.raw([]byte(member))
	w.raw([]byte(`":`))
	w.stringsDiff(before, after)
	if w.err != nil { // a key that looks like a directive
		return Strings(member, before, after, JSON)
	}
	return Patch{Data: append(w.buf, "}}"...), Style: s, Other: "metadata"}
}
