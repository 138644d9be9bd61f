// Package tree contains the data structures of an informer's store: a hash
// table for reads by key, a persistent tree for each state of the cache, and
// indexes.
//
// One writer at a time changes them. Readers take no lock: items, nodes and
// postings never change, and the slots of a table are read atomically. The only
// notions of Kubernetes in this package are keys and fingerprints of specs.
package tree
