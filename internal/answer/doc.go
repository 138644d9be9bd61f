// Package answer reads the metadata of an API object from the bytes of an
// answer, in whatever encoding the client asked for, and the whole object only
// on demand.
package answer
