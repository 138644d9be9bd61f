// Package intern deduplicates equal parts of cached objects:
//
//	pool := intern.New()
//	pool.Update(obj, old) // obj now shares its equal parts with old and others
//
// A cache of API objects holds the same labels, containers and conditions
// thousands of times. Cached objects are read-only, so that one copy of each
// part is enough.
//
//	            equal in the earlier state, or in a relative?
//	object ──▶  equal in the element before?                    ──▶ take that
//	  part      known in the table?  (by a keyed hash, weakly)
//	    └─ no to all: the same for the parts within
//
// The contract:
//
//   - An object is deeply equal before and after the call.
//   - A part is a string, a slice, a map with string keys, or the target of a
//     pointer. The search starts with the largest parts, and looks into a part
//     only if no equal one is found.
//   - An update is compared with the earlier state of its object, and takes
//     the unchanged parts from there. A new object is compared with a
//     relative, an object of the same controller or at least of the same type.
//     For example, a second replica takes nearly all of its memory from the
//     first.
//   - A part above a minimum size enters the table when a second object has
//     it, so that names, UIDs and times do not fill the table. The entry
//     refers to the part and does not copy it.
//   - A field whose parts were not found in other objects 128 times in a row is
//     looked up in one of 16 objects only, until a part is found again. If the
//     values of a map of byte slices were never found, an update keeps its own
//     bytes, and does not compare them with the earlier ones. For example, the
//     Secrets of a cluster have different bytes.
//   - The table holds its parts weakly and keeps no memory alive. After each
//     garbage collection it drops dead parts and shrinks.
//   - Hashes are keyed, so that the author of an object cannot choose its
//     cost. A lock is held for one search, or for sweeping one of many tables.
//   - The caller owns the object until Object or Update returns. After that
//     the object must not be modified.
//
// # Lazy values
//
// Some types write to a value when they read it. For example, the methods
// String, Marshal and AsDec of a
// [k8s.io/apimachinery/pkg/api/resource.Quantity] keep their result in it. If
// two objects shared such a value, the workers of two keys would race. So this
// package shares neither a lazy value nor a part that contains one, and does
// not read a lazy value of an object that others may be reading. Values in
// maps, such as resource requests, are not lazy: Go has no pointers into maps,
// so that each reader has a copy. Maps with numbers so big that copies share
// their digits are not shared, either.
//
// A type caches results in fields that only its own package can see. So every
// type with an unexported field counts as lazy, except for types whose methods
// have been reviewed: time.Time and metav1.FieldsV1. A test lists these types
// in all built-in kinds: Quantity is the only lazy one. Messages of
// google.golang.org/protobuf, which some custom resources are made of, are
// lazy, too.
//
// The same knowledge of the memory layout serves to measure objects ([Size])
// and to compare them ([Alike]).
//
// The package does not look into interfaces (except in unstructured content),
// channels, functions, and maps with other keys, which stay unchanged. All
// assumptions about memory are in memory.go, and all changes to objects are in
// walk.go.
package intern
