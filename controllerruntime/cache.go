package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
)

// NewCache returns a function for manager.Options.NewCache. The caches that it
// makes are controller-runtime's, around the informers of package
// informer/clientgo, except that objects of the kinds in Options.OnDemand are
// cached when they are read. An Options.NewInformer of the manager's cache is
// kept. A nil o means the defaults.
//
// The transport of the cache's HTTP client, which is the one of the manager's
// client, is wrapped, so that a Get sees what this client wrote.
//
// Errors of the function that it returns: wrong options, a kind in OnDemand that
// the scheme does not know, and the errors of controller-runtime's cache.New.
func NewCache(o *Options) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		own := o.withDefaults()
		if err := own.validate(); err != nil {
			return nil, err
		}
		c := &onDemand{Options: own, kinds: map[form]*kind{}, named: map[schema.GroupVersionKind]bool{}}
		if options.NewInformer == nil {
			options.NewInformer = c.informers.New
		}
		if err := c.prepare(config, &options); err != nil {
			return nil, err
		}
		var err error
		if c.Cache, err = cache.New(config, options); err != nil {
			return nil, err
		}
		return c, nil
	}
}

// Status returns the state of each informer of a cache that was made by
// NewCache, and of each kind on demand. Pass it to metrics.Informers, or to a
// page. It returns nil for other caches.
func Status(of cache.Cache) []informer.Status {
	c, ok := of.(*onDemand)
	if !ok {
		return nil
	}
	all := c.informers.Status()
	for _, k := range c.all() {
		all = append(all, k.refs.Status())
	}
	return all
}

// form is a kind in one representation.
type form struct {
	gvk schema.GroupVersionKind
	as  representation
}

// onDemand is a cache of controller-runtime for all kinds but those in named.
type onDemand struct {
	cache.Cache
	Options

	informers clientgo.Informers
	options   cache.Options // with a Scheme and a Mapper, if there is a kind on demand
	live      client.WithWatch
	named     map[schema.GroupVersionKind]bool

	mu      sync.Mutex // guards the fields below
	kinds   map[form]*kind
	ctx     context.Context //nolint:containedctx // of Start, for kinds that come later; nil before
	running sync.WaitGroup
}

// prepare makes what kinds on demand need, if there are any.
func (c *onDemand) prepare(config *rest.Config, o *cache.Options) error {
	if len(c.OnDemand) == 0 {
		return nil
	}
	if o.Scheme == nil {
		o.Scheme = clientscheme.Scheme
	}
	if o.HTTPClient == nil {
		httpClient, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		o.HTTPClient = httpClient
	}
	if o.Mapper == nil {
		mapper, err := apiutil.NewDynamicRESTMapper(config, o.HTTPClient)
		if err != nil {
			return err
		}
		o.Mapper = mapper
	}
	for _, example := range c.OnDemand {
		gvk, err := apiutil.GVKForObject(example, o.Scheme)
		if err != nil {
			return fmt.Errorf("finding the kind of %T in controllerruntime.Options.OnDemand: %w", example, err)
		}
		c.named[gvk] = true
	}
	c.options = *o
	if err := c.observeWrites(config, o.HTTPClient); err != nil {
		return err
	}
	var err error
	c.live, err = client.NewWithWatch(config, client.Options{HTTPClient: o.HTTPClient, Scheme: o.Scheme, Mapper: o.Mapper})
	return err
}

// kindOf returns the kind on demand of an object or a list, nil if it is
// another one.
func (c *onDemand) kindOf(object runtime.Object) (*kind, error) {
	if len(c.named) == 0 {
		return nil, nil
	}
	gvk, err := apiutil.GVKForObject(object, c.options.Scheme)
	if err != nil {
		return nil, err
	}
	if meta.IsListType(object) {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return c.kindIn(form{gvk, representationOf(object)})
}

// kindIn returns a kind on demand, which begins to run with the cache.
func (c *onDemand) kindIn(f form) (*kind, error) {
	if !c.named[f.gvk] {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.kinds[f]; k != nil {
		return k, nil
	}
	k, err := newKind(c, f)
	if err != nil {
		return nil, err
	}
	c.kinds[f] = k
	c.startLocked(k)
	return k, nil
}

// startLocked runs a kind, if the cache runs. mu is held.
func (c *onDemand) startLocked(k *kind) {
	switch ctx := c.ctx; {
	case ctx == nil:
	case ctx.Err() != nil:
		k.cancel()
	default:
		c.running.Go(func() { k.run(ctx) })
	}
}

// isStarted reports whether Start has been called.
func (c *onDemand) isStarted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx != nil
}

// all returns the kinds on demand that have been used.
func (c *onDemand) all() (all []*kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.kinds {
		all = append(all, k)
	}
	return all
}

// Start runs the cache until ctx ends.
func (c *onDemand) Start(ctx context.Context) error {
	c.mu.Lock()
	if c.ctx == nil {
		c.ctx = ctx
		for _, k := range c.kinds {
			c.startLocked(k)
		}
	}
	c.mu.Unlock()
	err := c.Cache.Start(ctx)
	if ctx.Err() != nil {
		c.mu.Lock()   // nothing begins any more
		c.mu.Unlock() //nolint:staticcheck // see above
		c.running.Wait()
	}
	return err
}

// Get returns the object of key.
func (c *onDemand) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	switch k, err := c.kindOf(out); {
	case err != nil:
		return err
	case k != nil:
		return k.get(ctx, key, out, (&client.GetOptions{}).ApplyOptions(opts))
	}
	return c.Cache.Get(ctx, key, out, opts...)
}

// List returns what is cached or, for a kind on demand, what the server has.
func (c *onDemand) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	switch k, err := c.kindOf(out); {
	case err != nil:
		return err
	case k != nil:
		return k.list(ctx, out, (&client.ListOptions{}).ApplyOptions(opts))
	}
	return c.Cache.List(ctx, out, opts...)
}

// GetInformer returns the informer of a kind.
func (c *onDemand) GetInformer(
	ctx context.Context, obj client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	switch k, err := c.kindOf(obj); {
	case err != nil:
		return nil, err
	case k != nil:
		return k, nil
	}
	return c.Cache.GetInformer(ctx, obj, opts...)
}

// GetInformerForKind returns the informer of a kind.
func (c *onDemand) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	switch k, err := c.kindIn(form{gvk, typed}); {
	case err != nil:
		return nil, err
	case k != nil:
		return k, nil
	}
	return c.Cache.GetInformerForKind(ctx, gvk, opts...)
}

// RemoveInformer drops all objects of a kind, and its handlers.
func (c *onDemand) RemoveInformer(ctx context.Context, obj client.Object) error {
	switch k, err := c.kindOf(obj); {
	case err != nil:
		return err
	case k != nil:
		c.mu.Lock()
		delete(c.kinds, k.form)
		c.mu.Unlock()
		k.stop()
		return nil
	}
	return c.Cache.RemoveInformer(ctx, obj)
}

// IndexField adds a field by which objects are listed.
func (c *onDemand) IndexField(ctx context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	switch k, err := c.kindOf(obj); {
	case err != nil:
		return err
	case k != nil:
		return k.addField(field, values)
	}
	return c.Cache.IndexField(ctx, obj, field, values)
}

var errStopped = errors.New("the cache has stopped")
