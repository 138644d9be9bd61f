// Package wire decodes the objects of a watch, except for specs that the cache has
// already: most updates change only the status.
//
//	http.Client ──▶ transport ──▶ whatever the client had
//	                   │ reads the body of a watch in protobuf, decodes an object,
//	                   │ but for a spec that the cache has, and sends a placeholder;
//	                   │ an object that the cache does not have gets a mark alone
//	                   ▼
//	rest.Request.Watch, unchanged ──▶ placeholder ──▶ Specs.Take ──▶ object
//
// Opening, retries, errors, limits, metrics and warnings are client-go's own: it
// reads the body of a response as always; that is only shorter.
//
//   - A placeholder has the identity and the resourceVersion of its object, and a
//     mark that no server can guess, in a field that no server sends.
//   - A frame that is not exactly as expected, a media type other than protobuf, and
//     an answer other than 200 pass through unchanged.
package wire
