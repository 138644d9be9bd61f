package queue

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// A Cause is one reason why a key is dispatched. It explains the dispatch in
// logs and on debug pages, and does not influence when the key is dispatched.
// Every field may be empty. The zero Cause is ignored.
type Cause struct {
	// Trigger names the source of the addition, such as an informer.
	Trigger string
	// Type is the change of the object, such as "added", "updated" or
	// "deleted".
	Type string
	// Namespace and Name identify the object that changed. It need not be the
	// key's object.
	Namespace, Name string
	// OldVersion and NewVersion are the object's resourceVersions before and
	// after the change.
	OldVersion, NewVersion string
	// Merged is the number of further changes of the same object, seen by the
	// same trigger, that were merged into this cause. It is at most 65,535.
	// Type and NewVersion describe the last of these changes. A key keeps only
	// eight causes; Merged of the eighth also counts the causes that were
	// dropped.
	Merged int
}

func (c *Cause) empty() bool {
	return c.Trigger == "" && c.Name == "" && c.Namespace == "" && c.Type == "" &&
		c.OldVersion == "" && c.NewVersion == "" && c.Merged == 0
}

// maxCauses is the maximum number of causes that are stored for one key. Each
// further cause only increases Merged of the last stored cause.
const maxCauses = 8

// packedCause stores a Cause in a third of its size. A resourceVersion is
// stored as a number. Strings that are in the key or in the list of known names
// are not stored again.
type packedCause struct {
	oldVersion, newVersion uint64 // the versions as numbers; 0 if the version is in texts
	next                   uint32 // number of the next cause in the list; 0 at its end
	texts                  uint32 // number in causes.texts of the strings that do not fit; 0 if all strings fit
	merged                 uint16
	trigger, kind          uint8 // index in causes.known, plus one; 0 if the string is in texts
	isKey                  bool  // whether namespace and name are the key's
}

// causes stores the causes of all keys as linked lists. A list is identified by
// the number of its first cause; 0 is the empty list.
type causes struct {
	nodes slab[packedCause]
	texts slab[Cause]
	known []string // the known triggers and types
}

// add adds c to the list of causes of a key. c must not be empty. key is a
// pointer to the key. If the list already has a cause with the same object and
// the same trigger, add merges c into that cause. If the list is full, the last
// cause only counts c.
func (s *causes) add(list *uint32, key any, c *Cause) {
	keyName, _ := key.(*types.NamespacedName)
	link := list
	for length := 1; *link != 0; length++ {
		p := s.nodes.value(*link)
		if s.absorb(p, keyName, c) {
			return
		}
		if length == maxCauses {
			p.merged = addSaturated(p.merged, c.Merged+1)
			return
		}
		link = &p.next
	}
	*link = s.nodes.take()
	s.pack(s.nodes.value(*link), keyName, c)
}

// pack stores c in p. p must be zero.
func (s *causes) pack(p *packedCause, keyName *types.NamespacedName, c *Cause) {
	p.merged = addSaturated(0, c.Merged)
	p.trigger, p.kind = s.intern(c.Trigger), s.intern(c.Type)
	p.isKey = keyName != nil && keyName.Name == c.Name && keyName.Namespace == c.Namespace
	p.oldVersion, p.newVersion = encodeVersion(c.OldVersion), encodeVersion(c.NewVersion)
	if !p.isKey || p.trigger == 0 && c.Trigger != "" || p.kind == 0 && c.Type != "" ||
		p.oldVersion == 0 && c.OldVersion != "" || p.newVersion == 0 && c.NewVersion != "" {
		p.texts = s.texts.take()
		*s.texts.value(p.texts) = *c
	}
}

// absorb merges c into p if both name the same object and the same trigger, and
// reports whether it did so.
func (s *causes) absorb(p *packedCause, keyName *types.NamespacedName, c *Cause) bool {
	if p.isKey {
		if keyName.Name != c.Name || keyName.Namespace != c.Namespace {
			return false
		}
	} else if t := s.texts.value(p.texts); t.Name != c.Name || t.Namespace != c.Namespace {
		return false
	}
	if p.trigger != 0 && s.known[p.trigger-1] != c.Trigger || p.trigger == 0 && s.textsOf(p).Trigger != c.Trigger {
		return false
	}
	p.merged = addSaturated(p.merged, c.Merged+1)
	p.newVersion = encodeVersion(c.NewVersion)
	p.kind = s.intern(c.Type)
	if p.texts == 0 && (p.kind == 0 && c.Type != "" || p.newVersion == 0 && c.NewVersion != "") {
		p.texts = s.texts.take()
	}
	if p.texts != 0 {
		t := s.texts.value(p.texts)
		t.Type, t.NewVersion = c.Type, c.NewVersion
	}
	return true
}

// textsOf returns the strings of p that did not fit into p itself.
func (s *causes) textsOf(p *packedCause) Cause {
	if p.texts == 0 {
		return Cause{}
	}
	return *s.texts.value(p.texts)
}

// list returns the causes of a key, starting with cause number first. key is a
// pointer to the key.
func (s *causes) list(first uint32, key any) []Cause {
	var list []Cause
	for n := first; n != 0; n = s.nodes.value(n).next {
		p := s.nodes.value(n)
		c := s.textsOf(p)
		c.Merged = int(p.merged)
		if p.trigger != 0 {
			c.Trigger = s.known[p.trigger-1]
		}
		if p.kind != 0 {
			c.Type = s.known[p.kind-1]
		}
		if keyName, ok := key.(*types.NamespacedName); ok && p.isKey {
			c.Namespace, c.Name = keyName.Namespace, keyName.Name
		}
		if p.oldVersion != 0 {
			c.OldVersion = strconv.FormatUint(p.oldVersion, 10)
		}
		if p.newVersion != 0 {
			c.NewVersion = strconv.FormatUint(p.newVersion, 10)
		}
		list = append(list, c)
	}
	return list
}

func (s *causes) drop(first uint32) {
	for first != 0 {
		p := s.nodes.value(first)
		next := p.next
		if p.texts != 0 {
			s.texts.drop(p.texts)
		}
		s.nodes.drop(first)
		first = next
	}
}

// maxKnown bounds the list of known names, because intern compares a name with
// each of them.
const maxKnown = 32

// intern returns the index of name among the known names, plus one. It returns
// 0 if name is empty, or if it is not in the list and the list is full.
func (s *causes) intern(name string) uint8 {
	for i, known := range s.known {
		if known == name {
			return uint8(i + 1) //nolint:gosec // at most maxKnown
		}
	}
	if name == "" || len(s.known) == maxKnown {
		return 0
	}
	s.known = append(s.known, name)
	return uint8(len(s.known)) //nolint:gosec // at most maxKnown
}

// encodeVersion returns version as a number, or 0 if the number would not print
// as the same text. For example, it returns 0 for "07" and for "abc".
func encodeVersion(version string) (n uint64) {
	const safe = 19 // digits that never overflow
	if version == "" || len(version) > safe || version[0] == '0' {
		return 0
	}
	for i := range len(version) {
		digit := version[i] - '0'
		if digit > 9 {
			return 0
		}
		n = 10*n + uint64(digit)
	}
	return n
}

func addSaturated(n uint16, increment int) uint16 {
	const limit = 1<<16 - 1
	return uint16(min(int(n)+max(increment, 0), limit)) //nolint:gosec // bounded by limit
}
