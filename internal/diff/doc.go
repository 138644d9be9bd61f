// Package diff makes the patch from one object to another of its type.
//
// Other libraries encode both objects as JSON, decode them into maps and compare the maps.
// Here a plan is compiled once per Go type from its tags; it walks both objects in
// memory and writes only what differs.
//
//	type ──compile──▶ plan (once) ──▶ walk(before, after) ──▶ patch
//	  │                                 │
//	  └─ no plan: compare their JSON    └─ cannot be merged by key: JSON merge patch instead
//
// The contract:
//
//   - Applying the patch to before gives after, as far as the JSON of the type can
//     tell; a strategic patch does not tell empty lists and maps from none.
//   - A strategic patch has $retainKeys, $patch, $deleteFromPrimitiveList, and
//     $setElementOrder only where the server would not find the order by itself.
//   - Lists whose merge keys are missing or not unique, maps of structs, raw
//     objects: where a strategic patch could be misread, the whole patch is a JSON merge patch.
//   - Types with a JSON of their own are compared by it, unless equal memory proves
//     that it is equal.
//   - Neither object is written to. Both must stay unchanged meanwhile.
//
// Plans read memory by offset: node.go has what they assume of its layout.
package diff
