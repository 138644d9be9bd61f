// Package wire decodes the objects of a watch, except for specs that the cache
// already has:
//
//	specs := wire.NewSpecs(kind, known)
//	client, reason := specs.Client(client, nil) // its watches deliver placeholders
//	object, spec, err := specs.Take(placeholder)
//
// Most updates change only the status, so that most specs need not be decoded.
//
//	http.Client ──▶ transport ──▶ the client's own transport
//	                   │ reads the body of a watch in protobuf, decodes an object
//	                   │ except for a spec that the cache has, and sends a placeholder;
//	                   │ an object that the cache does not have only gets a mark
//	                   ▼
//	rest.Request.Watch, unchanged ──▶ placeholder ──▶ Specs.Take ──▶ object
//
// Opening, retries, errors, limits, metrics and warnings remain client-go's
// own: it reads the body of the response as always, and the body is only
// shorter.
//
//   - A placeholder has the identity and the resourceVersion of its object, and
//     a mark that no server can guess, in a field that no server sends.
//   - A frame that differs from the expected form, a media type other than
//     protobuf, and a status other than 200 pass through unchanged.
package wire
