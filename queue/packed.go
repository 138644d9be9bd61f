package queue

import (
	"k8s.io/apimachinery/pkg/types"
)

// A packed cause is a Cause in a third of its size: versions are kept in a word
// each, and texts only where the key and the list of known triggers do not say
// them already.
type packed struct {
	before, after         uint64
	next                  uint32
	texts                 uint32 // what does not fit here, 0 if nothing
	merged                uint16
	trigger               uint8 // place in causes.triggers, plus one
	change                Change
	self                  bool // namespace and name are the key's
	keepsBefore, keepsNew kept
}

type texts struct{ trigger, namespace, name, before, after string }

// causes holds the lists of causes of all keys.
type causes struct {
	nodes    slab[packed]
	texts    slab[texts]
	triggers []string
}

// add puts c into the list *head, which belongs to key. A cause of the same
// object by the same trigger absorbs it.
func (s *causes) add(head *uint32, key any, c *Cause) {
	own, _ := key.(*types.NamespacedName)
	link, length := head, 0
	for *link != 0 {
		p := s.nodes.at(*link)
		length++
		if s.sameObject(p, own, c) {
			s.merge(p, c)
			return
		}
		if length == MaxCauses {
			p.merged = saturated(p.merged, c.Merged+1)
			return
		}
		link = &p.next
	}
	n := s.nodes.take()
	*link = n
	p := s.nodes.at(n)
	s.pack(p, own, c)
}

// repeats is add for the common case, and false if c is none: a change of the
// key's own object, whose last one was the first of the list at head.
func (s *causes) repeats(head uint32, key any, c *Cause) bool {
	own, ok := key.(*types.NamespacedName)
	if !ok || head == 0 || c.Merged != 0 {
		return false
	}
	p := s.nodes.at(head)
	if p.trigger == 0 || !p.self || p.merged == most ||
		own.Name != c.Name || own.Namespace != c.Namespace || s.triggers[p.trigger-1] != c.Trigger {
		return false
	}
	after, how := fold(c.NewVersion)
	if how == apart {
		return false
	}
	p.change, p.after, p.keepsNew, p.merged = c.Change, after, how, p.merged+1
	return true
}

// pack fills p, which is zero.
func (s *causes) pack(p *packed, own *types.NamespacedName, c *Cause) {
	p.change, p.merged = c.Change, saturated(0, c.Merged)
	p.trigger = s.trigger(c.Trigger)
	p.self = own != nil && own.Name == c.Name && own.Namespace == c.Namespace
	p.before, p.keepsBefore = fold(c.OldVersion)
	p.after, p.keepsNew = fold(c.NewVersion)
	if !p.self || p.trigger == 0 && c.Trigger != "" || p.keepsBefore == apart || p.keepsNew == apart {
		p.texts = s.texts.take()
		*s.texts.at(p.texts) = texts{c.Trigger, c.Namespace, c.Name, c.OldVersion, c.NewVersion}
	}
}

func (s *causes) sameObject(p *packed, own *types.NamespacedName, c *Cause) bool {
	trigger, namespace, name := s.names(p, own)
	return name == c.Name && namespace == c.Namespace && trigger == c.Trigger
}

// merge makes p tell of one more change of its object: from the version before
// the first to the version after the last.
func (s *causes) merge(p *packed, c *Cause) {
	p.change, p.merged = c.Change, saturated(p.merged, c.Merged+1)
	p.after, p.keepsNew = fold(c.NewVersion)
	if p.keepsNew != apart {
		return
	}
	if p.texts == 0 {
		p.texts = s.texts.take()
	}
	s.texts.at(p.texts).after = c.NewVersion
}

// names returns the texts of p that tell its object and trigger.
func (s *causes) names(p *packed, own *types.NamespacedName) (trigger, namespace, name string) {
	if p.texts != 0 {
		t := s.texts.at(p.texts)
		trigger, namespace, name = t.trigger, t.namespace, t.name
	}
	if p.trigger != 0 {
		trigger = s.triggers[p.trigger-1]
	}
	if p.self {
		namespace, name = own.Namespace, own.Name
	}
	return trigger, namespace, name
}

// list unpacks the list that begins at head.
func (s *causes) list(head uint32, key any) []Cause {
	if head == 0 {
		return nil
	}
	own, _ := key.(*types.NamespacedName)
	all := make([]Cause, 0, 1)
	for n := head; n != 0; n = s.nodes.at(n).next {
		p := s.nodes.at(n)
		c := Cause{Change: p.change, Merged: int(p.merged)}
		c.Trigger, c.Namespace, c.Name = s.names(p, own)
		var apart texts
		if p.texts != 0 {
			apart = *s.texts.at(p.texts)
		}
		c.OldVersion = unfold(p.before, p.keepsBefore, apart.before)
		c.NewVersion = unfold(p.after, p.keepsNew, apart.after)
		all = append(all, c)
	}
	return all
}

// drop frees the list that begins at head.
func (s *causes) drop(head uint32) {
	for head != 0 {
		p := s.nodes.at(head)
		next := p.next
		if p.texts != 0 {
			s.texts.drop(p.texts)
		}
		s.nodes.drop(head)
		head = next
	}
}

// maxTriggers bounds the list of known triggers, which is searched.
const maxTriggers = 32

// trigger returns the place of name among the known triggers, plus one, and 0
// if there is none.
func (s *causes) trigger(name string) uint8 {
	for i, known := range s.triggers {
		if known == name {
			return uint8(i + 1) //nolint:gosec // at most maxTriggers
		}
	}
	if name == "" || len(s.triggers) == maxTriggers {
		return 0
	}
	s.triggers = append(s.triggers, name)
	return uint8(len(s.triggers)) //nolint:gosec // at most maxTriggers
}

const most = 1<<16 - 1

func saturated(n uint16, more int) uint16 {
	return uint16(min(int(n)+max(more, 0), most)) //nolint:gosec // bounded by most
}
