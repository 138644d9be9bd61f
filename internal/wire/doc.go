// Package wire spares the reader of a watch the work of decoding what it has
// already: the spec of an object of which only the status has changed.
//
//	http.Client ──▶ transport ──▶ whatever the client had
//	                   │ reads the body of a watch in protobuf, decodes an object,
//	                   │ but for a spec that the cache has, and sends a placeholder
//	                   ▼
//	rest.Request.Watch, unchanged ──▶ placeholder ──▶ Specs.Take ──▶ object
//
// Opening, retries, errors, limits, metrics and warnings are client-go's own: it
// reads the body of a response, as ever, which only happens to be shorter.
//
//   - A placeholder has the identity and the resourceVersion of its object, and a
//     mark that no one else can make, in a field that no server sends.
//   - A frame that is not exactly as expected, a media type that is not protobuf,
//     an answer that is not 200: all of that passes through as it is.
package wire
