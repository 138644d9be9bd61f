// Package diff makes the patch from one object to another of the same type:
//
//	p, err := diff.Make(original, edited, diff.StyleOf(original))
//
// Other libraries encode both objects as JSON, decode them into maps and
// compare the maps. This package compiles a plan once per Go type from its
// tags. The plan walks both objects in memory and writes only the differences.
//
//	type ──compile──▶ plan (once) ──▶ walk(original, edited) ──▶ patch
//	  │                                 │
//	  └─ no plan: compare their JSON    └─ cannot be merged by key: JSON merge patch instead
//
// The contract:
//
//   - Applying the patch to the original gives the edited object, as far as the
//     JSON of the type can show. For example, a strategic patch treats an empty
//     list or map like a missing one.
//   - A strategic patch may contain $retainKeys, $patch and
//     $deleteFromPrimitiveList. It contains $setElementOrder only where the
//     server would not find the order by itself.
//   - Where a strategic patch could be misread, the whole patch is a JSON merge
//     patch. Examples are lists whose merge keys are missing or not unique,
//     maps of structs, and raw objects.
//   - Types with custom JSON are compared by that JSON, unless equal memory
//     proves that it is equal.
//   - Neither object is modified. Both must stay unchanged during the call.
//
// Plans read memory by offset. See node.go for their assumptions about the
// memory layout.
package diff
