// Package wire leaves out of a watch what its reader has already: the spec of an
// object of which only the status has changed.
//
//	http.Client ──▶ transport ──▶ whatever the client had
//	                   │ the body of a watch in protobuf:
//	                   │ a spec that the cache has is cut out of its frame
//	                   ▼
//	rest.Request.Watch, unchanged ──▶ object without its spec ──▶ Specs.Take
//
// Opening, retries, errors, limits, metrics and warnings are client-go's own: it
// reads the body of a response, as ever, which only happens to be shorter.
//
//   - A frame is changed in one piece: either its spec stays, or it is gone and a
//     mark is there instead, in a field of the metadata that no server sends. An
//     object cannot lose its spec and the mark.
//   - A frame that is not exactly as expected, a media type that is not protobuf,
//     an answer that is not 200: all of that passes through as it is.
package wire
