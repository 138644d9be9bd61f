// Package share makes equal parts of many objects one. A cache of API objects
// holds the same labels, containers and conditions thousands of times; since
// cached objects are read-only, one copy of each is enough.
//
//	object ──▶ plan of its type ──▶ hash of every part ──▶ table of known parts
//	  │                                                       │ (held weakly)
//	  └──────────── equal part ◀── largest that is known ◀────┘
//
// The contract:
//
//   - An object is deeply equal before and after. Nothing is dropped.
//   - A part is a string, a slice, a map with string keys, or what a pointer
//     points to. The largest part that is known is taken; only below an unknown
//     one does the search go on.
//   - A part becomes known when it is seen for the second time, so that names,
//     UIDs and times do not fill the table.
//   - An object is first compared with the one before it: in a list, that is
//     often another replica. The table is asked for the rest.
//   - An update is compared with the earlier state of its object instead: what has
//     stayed is taken over and does not become known, and only what is new is
//     looked for in the table.
//   - The table holds weakly: nothing but the last object is kept alive by it,
//     and it shrinks.
//   - The caller owns the object until Object returns, and nobody may write to it
//     afterwards.
//
// The same knowledge of how objects lie in memory serves to measure them
// ([Size]) and to compare them ([Equal]).
//
// What it does not look into: interfaces (except in unstructured content),
// channels, functions, unexported pointers, and maps with other keys. They stay as
// they are.
package share
