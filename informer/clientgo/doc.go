// Package clientgo connects informers with client-go's caches, in both directions:
// [Wrap] turns a shared informer that a program already has into an informer, and
// [Indexer] shows an informer's cache to generated listers.
//
//	cache.SharedIndexInformer ──Wrap──▶ informer.Informer ──Indexer──▶ cache.Indexer, listers
//
// Both share objects with the underlying cache and copy nothing: do not modify the
// objects. Neither starts or stops anything: a wrapped shared informer is run by its
// factory, an informer by its Run.
//
// Costs: a wrapped informer holds a second index of the objects, and cannot
// ask the server how new its cache is; a lister allocates a slice for every list.
package clientgo
