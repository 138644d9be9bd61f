// Package clientgo connects informers with the caches of client-go, in both
// directions: [Wrap] makes an informer of a shared informer that a program has
// already, and [Indexer] shows an informer's cache to generated listers.
//
//	cache.SharedIndexInformer ──Wrap──▶ informer.Informer ──Indexer──▶ cache.Indexer, listers
package clientgo
