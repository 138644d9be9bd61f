// Package tree has the data structures of an informer's store: a hash table for
// reads by key, a persistent tree for each state of the cache, and indexes of
// such trees.
//
// One writer at a time changes them. Readers take no lock: an item, a node and
// a posting never change, and the slots of a table are read atomically. The
// package knows nothing of Kubernetes but keys, and fingerprints of specs.
package tree
