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

// NewCache returns a function for manager.Options.NewCache. The function makes
// controller-runtime's own cache, but with the informers of package
// informer/clientgo. Objects of the kinds in Options.OnDemand are cached only
// when they are read. All other kinds are cached as a whole; if the
// cache.Options of the manager set NewInformer, that function makes their
// informers instead. A nil o means the defaults.
//
// If OnDemand has kinds, the cache wraps the transport of its HTTP client,
// which the manager's client shares. So a Get of an object of such a kind sees
// the earlier writes of the manager's client. For other kinds, see
// SeeOwnWrites. Where clientgo.ReuseSpecs has an effect, the watches do not
// decode unchanged specs again.
//
// The function returns an error if an option is wrong, or if the scheme does
// not know a kind in OnDemand. It also returns the errors of
// controller-runtime's cache.New.
func NewCache(o *Options) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		own := o.withDefaults()
		if err := own.validate(); err != nil {
			return nil, err
		}
		if config.UserAgent == "" { // a manager would have set it
			config = rest.CopyConfig(config)
			config.UserAgent = rest.DefaultKubernetesUserAgent()
		}
		c := &onDemand{Options: own, kinds: map[form]*kind{}, named: map[schema.GroupVersionKind]bool{}}
		if options.NewInformer == nil {
			options.NewInformer = c.informers.New
		}
		if err := c.prepare(config, &options); err != nil {
			return nil, err
		}
		if err := reuseSpecs(config, &options); err != nil {
			return nil, err
		}
		var err error
		if c.Cache, err = cache.New(config, options); err != nil {
			return nil, err
		}
		return c, nil
	}
}

// reuseSpecs replaces the HTTP client in o by a copy that has the transport of
// [clientgo.ReuseSpecs]: watches then do not decode unchanged specs again. If o
// has no client, reuseSpecs makes one for config.
func reuseSpecs(config *rest.Config, o *cache.Options) error {
	httpClient := o.HTTPClient
	if httpClient == nil {
		made, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		httpClient = made
	}
	copied := *httpClient
	copied.Transport = clientgo.ReuseSpecs(copied.Transport)
	o.HTTPClient = &copied
	return nil
}

// Status returns the state of each informer of a cache that was made by
// NewCache, and of each kind on demand that has been read or watched. Pass it
// to metrics.Informers, or to a page. Informers that were made by the
// NewInformer of the manager's cache.Options are not included. It returns nil
// for other caches.
func Status(cached cache.Cache) []informer.Status {
	c, ok := cached.(*onDemand)
	if !ok {
		return nil
	}
	statuses := c.informers.Status()
	for _, k := range c.all() {
		statuses = append(statuses, k.refs.Status())
	}
	return statuses
}

// form identifies the objects of one kind in one representation, such as Pods
// with only their metadata.
type form struct {
	gvk   schema.GroupVersionKind
	shape representation
}

// onDemand is a cache of controller-runtime that caches the kinds in named on
// demand, and all other kinds as a whole.
type onDemand struct {
	cache.Cache
	Options

	informers clientgo.Informers
	options   cache.Options // the manager's options, with a Scheme and a Mapper; zero if there is no kind on demand
	live      client.WithWatch
	named     map[schema.GroupVersionKind]bool

	mu      sync.Mutex // guards the fields below
	kinds   map[form]*kind
	ctx     context.Context //nolint:containedctx // the context of Start, for kinds that are used later; nil before Start
	running sync.WaitGroup
}

// prepare completes the options and makes the client that kinds on demand need.
// It does nothing if there are no such kinds.
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

// kindOf returns the kind of an object or a list, or nil if that kind is not
// cached on demand.
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

// kindIn returns the kind of a form, or nil if the kind is not cached on
// demand. It makes the kind at the first call, and starts it if the cache is
// running.
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

// startLocked starts a kind if the cache is running, and cancels it if the
// cache has stopped. mu must be held.
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

// all returns the kinds on demand that have been used and not been removed
// since.
func (c *onDemand) all() (kinds []*kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.kinds {
		kinds = append(kinds, k)
	}
	return kinds
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
		c.mu.Lock()   // after this, no kind starts, because ctx has ended
		c.mu.Unlock() //nolint:staticcheck // see above
		c.running.Wait()
	}
	return err
}

// Get reads the object of key into out.
func (c *onDemand) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	switch k, err := c.kindOf(out); {
	case err != nil:
		return err
	case k != nil:
		return k.get(ctx, key, out, (&client.GetOptions{}).ApplyOptions(opts))
	}
	return c.Cache.Get(ctx, key, out, opts...)
}

// List reads cached objects into out. For a kind on demand, it reads the
// objects from the server.
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

// RemoveInformer drops all objects of the kind of obj, and its handlers. If the
// kind is cached on demand, it drops only the representation that obj has:
// typed, unstructured or metadata-only.
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

// IndexField adds a field that the field selectors of List can contain.
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
