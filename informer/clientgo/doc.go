// Package clientgo connects informers with the caches of client-go, in both
// directions: [Wrap] makes an informer of a shared informer that a program has
// already, and [Indexer] shows an informer's cache to generated listers.
//
//	cache.SharedIndexInformer ──Wrap──▶ informer.Informer ──Indexer──▶ cache.Indexer, listers
//
// Both share objects with the cache that they come from and copy nothing: do not
// modify the objects. Neither starts nor stops anything: a wrapped shared informer is
// run by its factory, an informer by its Run.
//
// Costs: a wrapped informer holds a second index of the objects, and cannot
// ask the server how new its cache is; a lister allocates a slice for every list.
package clientgo
