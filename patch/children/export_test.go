package children

import "github.com/homeostat/homeostat/informer"

// Notes is how many owners s remembers.
func Notes[T informer.Object](s *Set[T]) int { return len(s.notes) }

// MutableMembers returns the members of a field that may change, by the text of
// the server's refusal.
func MutableMembers(field, text string) []string { return mutableMembers(field, text) }

// ImmutableFields returns the fields whose change a server has refused because
// they are immutable.
func ImmutableFields(err error) []string { return immutableFields(err) }
