package diff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxOperations is how many operations of a JSON patch a server accepts.
	maxOperations = 10_000
	// maxTested bounds the length of a value that identifies an element.
	maxTested = 256
	// maxGuesses bounds how many patches are tried for one edit.
	maxGuesses = 3
)

// operations writes a JSON patch, RFC 6902, from one tree to another. It is meant for an
// object that is as it was read, which the caller makes a condition of the request. The
// patch then fails, instead of losing something, where the server's object has more than
// the tree can tell:
//
//   - Elements of lists are addressed by their index, and tested before.
//   - A list or an object that is new is tested to be missing.
//   - An element that was edited or removed, nobody knows which, is tested to have no
//     members that the Go type does not know.
type operations struct {
	buf   []byte
	path  []byte
	n     int
	exact bool // the server has what the JSON of the Go type has
	guess
	guessedEmpty, guessedNil bool // such objects were met, and taken to be missing
	// fields are the lists and new objects that the patch depends on.
	fields []string
}

// A guess says which objects exist on the server where the Go type cannot tell.
type guess struct {
	// empty structs exist that are in fewer than so many other ones.
	empty int
	// hidden says that nil pointers and maps are objects that were cut out of the cache.
	hidden bool
}

// listsByIndex returns the patch from before to after, and in Others the patches to try if
// the server refuses it.
func listsByIndex(before, after any, s Style) (Patch, error) {
	a, b, err := treesOf(before, after, s)
	if err != nil {
		return Patch{}, err
	}
	p := Patch{Style: Operations}
	for g, more := (guess{}), true; more; {
		o := operations{buf: []byte{'['}, exact: s == Strategic, guess: g}
		o.object(a, b, 0)
		if o.n > maxOperations {
			return Patch{}, fmt.Errorf("the edit of %s takes %d operations, a server accepts %d: edit in several steps",
				strings.Join(o.fields, ", "), o.n, maxOperations)
		}
		if o.n == 0 {
			return Patch{}, nil
		}
		p.Fields = o.fields // the last ones are the most precise
		o.buf = append(o.buf, ']')
		if p.Data == nil {
			p.Data = o.buf
		} else {
			p.Others = append(p.Others, o.buf)
		}
		g, more = o.next()
	}
	for _, names := range [][]string{a.names, b.names} {
		for _, name := range names {
			p.note(name, !sameTree(a.member(name), b.member(name)))
		}
	}
	return p, nil
}

// next returns the guess to try after that of o.
func (o *operations) next() (guess, bool) {
	switch {
	case o.guessedEmpty && o.empty < maxGuesses:
		return guess{o.empty + 1, o.hidden}, true
	case o.guessedNil:
		return guess{0, true}, true
	default:
		return guess{}, false
	}
}

// op writes one operation on the current path. value is JSON, if there is one.
func (o *operations) op(name string, value []byte) {
	if o.n++; o.n > 1 {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(append(append(o.buf, `{"op":"`...), name...), `","path":`...)
	o.buf = AppendString(o.buf, string(o.path))
	if value != nil {
		o.buf = append(append(o.buf, `,"value":`...), value...)
	}
	o.buf = append(o.buf, '}')
}

// move moves an element of the list at the current path.
func (o *operations) move(from, to int) {
	source := fmt.Appendf(nil, `%s/%d`, o.path, from)
	o.at(strconv.Itoa(to), func() {
		o.op("move", nil)
		o.buf = append(o.buf[:len(o.buf)-1], `,"from":`...)
		o.buf = append(AppendString(o.buf, string(source)), '}')
	})
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// at calls f with the path of a member or an element.
func (o *operations) at(name string, f func()) {
	n := len(o.path)
	o.path = append(append(o.path, '/'), pointerEscapes.Replace(name)...)
	f()
	o.path = o.path[:n]
}

func (o *operations) depends() {
	field := strings.ReplaceAll(strings.TrimPrefix(string(o.path), "/"), "/", ".")
	if !slices.Contains(o.fields, field) {
		o.fields = append(o.fields, field)
	}
}

// object writes the members that differ. unsure is how many of the objects above may be
// missing on the server.
func (o *operations) object(a, b *tree, unsure int) {
	for i, name := range b.names {
		if b.members[i].shape != shapeNull {
			o.at(name, func() { o.value(a.member(name), b.members[i], unsure) })
		}
	}
	for i, name := range a.names {
		if b.member(name) == nil {
			o.at(name, func() { o.value(a.members[i], nil, unsure) })
		}
	}
}

// value writes how the value at the current path changes.
func (o *operations) value(a, b *tree, unsure int) {
	switch {
	case sameTree(a, b):
	case b.none():
		o.remove(a)
	case b.shape == shapeFlat:
		o.op("add", b.append(nil, false))
	case b.shape == shapeList && a != nil && a.shape == shapeList:
		o.list(a, b, unsure)
	case b.shape == shapeObject && (a == nil || a.shape == shapeNull || a.shape == shapeObject):
		o.within(a, b, unsure)
	case a == nil || a.shape == shapeNull:
		o.create(b.append(nil, false))
	default: // of another shape
		o.op("add", b.append(nil, false))
	}
}

// within writes the changes in an object, or the object itself if it is not there yet.
func (o *operations) within(a, b *tree, unsure int) {
	isNil := a == nil || a.shape == shapeNull
	switch {
	case !isNil && a.sure:
		o.object(a, b, unsure)
		return
	case !isNil && unsure < o.empty:
		o.object(a, b, unsure+1)
		return
	case isNil && o.hidden:
		o.object(&tree{shape: shapeObject}, b, unsure)
		return
	case isNil:
		o.guessedNil = true
	default:
		o.guessedEmpty = true
	}
	o.create(b.without(a).append(nil, false))
}

// without returns an object with those members of t that are not the same in a.
func (t *tree) without(a *tree) *tree {
	if t.shape != shapeObject || a == nil || a.shape != shapeObject {
		return t
	}
	out := &tree{shape: shapeObject}
	for i, name := range t.names {
		if was := a.member(name); was == nil || !sameTree(was, t.members[i]) {
			out.add(name, t.members[i].without(was))
		}
	}
	return out
}

// create writes a list or an object that must not be there yet.
func (o *operations) create(value []byte) {
	o.depends()
	o.op("test", []byte("null"))
	o.op("add", value)
}

// remove removes the value at the current path. Of a list it removes what was read.
func (o *operations) remove(a *tree) {
	switch {
	case a.byKey && a.shape == shapeObject:
		for _, name := range a.names {
			o.at(name, func() { o.op("remove", nil) })
		}
	case a.byMember:
		for i, name := range a.names {
			if m := a.members[i]; !m.none() && !m.zero() {
				o.at(name, func() { o.remove(m) })
			}
		}
	case a.shape == shapeList && a.flatList():
		o.depends()
		o.testFlat(a)
		o.op("remove", nil)
	case a.shape == shapeList:
		o.list(a, &tree{shape: shapeList}, 0)
		o.op("test", []byte("[]"))
		o.op("remove", nil)
	default:
		o.op("remove", nil)
	}
}

// list writes how a list changes: edited elements, then removed ones, then new and moved ones.
func (o *operations) list(a, b *tree, unsure int) {
	o.depends()
	if a.flatList() && b.flatList() {
		o.testFlat(a)
		o.op("add", b.append(nil, false))
		return
	}
	p := pair(a, b)
	steps := arrange(p)
	o.tests(a, b, p, steps)
	for i, j := range p.to {
		if j >= 0 {
			o.at(strconv.Itoa(i), func() { o.value(a.elements[i], b.elements[j], unsure) })
		}
	}
	for i, j := range slices.Backward(p.to) {
		if j < 0 {
			o.at(strconv.Itoa(i), func() { o.op("remove", nil) })
		}
	}
	for _, s := range steps {
		switch {
		case s.from >= 0:
			o.move(s.from, s.at)
		case s.last:
			o.at("-", func() { o.op("add", b.elements[s.at].append(nil, true)) })
		default:
			o.at(strconv.Itoa(s.at), func() { o.op("add", b.elements[s.at].append(nil, true)) })
		}
	}
}

// testFlat tests a list of which no element has parts, if servers write all of them like us.
func (o *operations) testFlat(a *tree) {
	if !a.fromNil && !slices.ContainsFunc(a.elements, func(e *tree) bool { return !e.plain }) {
		o.op("test", a.append(nil, false))
	}
}

// flatList reports whether no element of the list has parts.
func (t *tree) flatList() bool {
	return !slices.ContainsFunc(t.elements, func(e *tree) bool { return e.shape != shapeFlat })
}

// step adds an element of the new list at its index, or moves one there.
type step struct {
	at, from int // from is -1 for a new one
	last     bool
	touched  int // the element of the old list that is moved or stands there; -1 if there is none
}

// arrange returns the steps that put the remaining elements and the new ones into their order.
func arrange(p pairing) []step {
	var now []int // the elements of the new list, -1 for none, in the order of the moment
	for _, j := range p.to {
		if j >= 0 {
			now = append(now, j)
		}
	}
	var steps []step
	for j, i := range p.from {
		s := step{at: j, from: -1, last: j == len(now), touched: -1}
		switch {
		case i < 0:
			if !s.last {
				s.touched = p.from[now[j]]
			}
			now = slices.Insert(now, j, j)
		case now[j] != j:
			s.from, s.touched = slices.Index(now, j), i
			now = slices.Insert(slices.Delete(now, s.from, s.from+1), j, j)
		default:
			continue
		}
		steps = append(steps, s)
	}
	return steps
}

// tests identifies the elements that the patch touches, before it changes any.
func (o *operations) tests(a, b *tree, p pairing, steps []step) {
	touched := make([]bool, len(a.elements))
	for i, j := range p.to {
		touched[i] = j < 0 || !sameTree(a.elements[i], b.elements[j])
	}
	for _, s := range steps {
		if s.touched >= 0 {
			touched[s.touched] = true
		}
	}
	for i, e := range a.elements {
		o.at(strconv.Itoa(i), func() {
			switch {
			case slices.Contains(p.doubtful, i) && e.shape == shapeObject:
				o.op("test", e.append(nil, o.exact))
			case touched[i] && !o.identify(e, false):
				o.identify(e, true)
			}
		})
	}
}

// identify tests the flat values of an element, also those in lists if asked for. It
// returns false if there are none.
func (o *operations) identify(e *tree, inLists bool) (found bool) {
	switch e.shape {
	case shapeFlat:
		if !e.plain || e.zero() || len(e.text) > maxTested {
			return false
		}
		o.op("test", e.text)
		return true
	case shapeObject:
		for i, m := range e.members {
			o.at(e.names[i], func() { found = o.identify(m, inLists) || found })
		}
	case shapeList:
		for i, m := range e.elements {
			if inLists {
				o.at(strconv.Itoa(i), func() { found = o.identify(m, inLists) || found })
			}
		}
	}
	return found
}
