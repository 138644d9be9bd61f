// Package wire reads the events of a watch without decoding what the reader
// has: the spec of an object whose status has changed.
package wire
