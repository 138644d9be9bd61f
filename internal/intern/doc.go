// Package intern deduplicates equal substructures of cached objects. A cache of API objects
// holds the same labels, containers and conditions thousands of times; since
// cached objects are read-only, one copy of each is enough.
//
//	            equal in the earlier state, or in a relative?
//	object ──▶  equal in the element before?                    ──▶ take that
//	  part      known in the table?  (by a keyed hash, weakly)
//	    └─ no to all: the same for the parts within
//
// The contract:
//
//   - An object is deeply equal before and after. Nothing is dropped.
//   - A part is a string, a slice, a map with string keys, or what a pointer
//     points to. The largest part that is found is taken; only below one that is
//     not found does the search go on.
//   - An update is compared with the earlier state of its object: what has stayed
//     is taken from there. A new object is compared with a relative instead, one of
//     the same controller or at least of the same type: a second replica takes
//     nearly all of its memory from the first.
//   - A part of some size becomes known to the table when a second object has it,
//     so that names, UIDs and times do not fill it. Nothing is copied for that.
//   - Everything is held weakly: nothing is kept alive by it, and after each
//     garbage collection the table drops what is dead, and shrinks.
//   - Hashes are keyed: what an object costs does not depend on what its author has
//     chosen. No lock is held for longer than one search, or than it takes to sweep one
//     of many tables.
//   - The caller owns the object until Object or Update returns, and nothing may
//     write to it afterwards.
//
// # Lazy values
//
// Some types write to a value when they read it: the methods String, Marshal and
// AsDec of a [k8s.io/apimachinery/pkg/api/resource.Quantity] keep their result in
// it. If two objects had such a value in common, the workers of two keys would
// race. So neither a lazy value nor any part that holds one is shared, and a lazy
// value of an object that others may be reading is not even looked at. Values in
// maps, such as resource requests, are not lazy: Go lets nothing point into a map,
// so that a reader has a copy. Maps with numbers so big that copies share their
// digits are not shared, either.
//
// Where a type keeps what it has found out, only its own package sees it. So every
// type with a field that is not exported counts as lazy, but for those whose
// methods have been looked at: time.Time and metav1.FieldsV1. A test lists these
// types in all built-in kinds: Quantity is the only lazy one. Messages of
// google.golang.org/protobuf, of which some custom resources are made, are lazy, too.
//
// The same knowledge of how objects lie in memory serves to measure them
// ([Size]) and to compare them ([Alike]).
//
// It does not look into these: interfaces (except in unstructured content),
// channels, functions, and maps with other keys. They stay as they are. All that
// it assumes about memory is in memory.go, what it does to an object is in walk.go.
package intern
