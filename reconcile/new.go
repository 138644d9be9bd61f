package reconcile

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/queue"
)

// New returns a controller that reconciles the objects of cache with r. The
// name appears in logs and metrics, and is the default field manager of r's
// writes. A nil o means the defaults. Several controllers may use one informer.
// The controllers of one process need different names; [RunAll] checks that.
//
// New starts no goroutine and sends no request. It returns one joined error for
// the mistakes in the arguments, the options and the informers.
func New[T informer.Object](
	name string, cache *informer.Informer[T], r Reconciler[T], o *Options,
) (*Controller, error) {
	options := o.withDefaults(name)
	c := &Controller{core: core{options: options}}
	c.name, c.timeout = name, options.ReconcileTimeout
	c.watchdog = newWatchdog(c.showOverdue, logOverdue)
	c.calls.Report = c.logStuck
	var refused error
	c.queue, refused = queue.New[Key](&queue.Options[Key]{
		Name: name, Backoff: options.Backoff, MinInterval: max(options.MinInterval, 0), Group: guardedGroup(c),
	})
	if options.Shards != nil {
		c.slots = &shardRunner{
			controller: &c.core, runs: map[int]*slotRun{}, draining: map[int]bool{}, failed: unfinished{}, waiting: unfinished{},
		}
		c.slots.caches = cachesOf(c.slots)
		c.ranged = c.slots.caches != nil
	}
	err := errors.Join(validate(name, cache, r), options.validate(typed[T]{cache}), refused, c.sweepKnown())
	if err == nil {
		c.owners, err = ownersFor(typed[T]{cache}, options.Triggers)
	}
	if err != nil {
		return nil, fmt.Errorf("making controller %q: %w", name, err)
	}
	c.sources = sourcesOf(typed[T]{cache}, options.Triggers)
	c.loops.manager, c.loops.sources, c.loops.queue = options.FieldManager, c.sources, c.queue
	c.fresh = &freshness{queue: c.queue, deadline: options.FreshnessDeadline, sources: c.sources, onSeen: c.histories.seen}
	c.primary = c.sources[0]
	c.references = referrersOf(c)
	c.reconcile = callOf(cache, r, c.orphans, c.references)
	c.attachPrimary = func() func() { return attachPrimary(&c.intake, cache, c.slots.noteDeletion) }
	return c, nil
}

// sweepKnown makes the sweep of Options.Known, if that is set.
func (c *Controller) sweepKnown() (err error) {
	if c.options.Known == nil {
		return nil
	}
	c.orphans, err = newOrphans(&c.core, func(key Key) bool { return c.slots == nil || c.slots.owns(key) })
	if c.slots != nil {
		c.slots.orphans = c.orphans
	}
	if err == nil {
		c.listed = c.orphans.sweep.Wake
	}
	return err
}

// validate returns the mistakes in the arguments of New, joined.
func validate[T informer.Object](name string, cache *informer.Informer[T], r Reconciler[T]) error {
	var errs []error
	if name == "" {
		errs = append(errs, errors.New("name is empty: it appears in logs and metrics, and is the default field manager"))
	}
	if cache == nil {
		errs = append(errs, errors.New("informer is nil: make one with informer.For"))
	}
	if v := reflect.ValueOf(r); !v.IsValid() || (v.Kind() == reflect.Func || v.Kind() == reflect.Pointer) && v.IsNil() {
		errs = append(errs, errors.New("reconciler is nil"))
	}
	return errors.Join(errs...)
}

// sourcesOf returns the informers of a controller, each once, the primary
// first.
func sourcesOf(primary source, triggers []Trigger) (found sources) {
	candidates := []source{primary}
	for _, t := range triggers {
		if t != nil {
			candidates = append(candidates, t.source())
		}
	}
	for _, s := range candidates {
		if s != nil && !isNil(s) && !slices.ContainsFunc(found, func(o source) bool { return o.identity() == s.identity() }) {
			found = append(found, s)
		}
	}
	return found
}

// validate returns the mistakes in the options, and in the informers in them,
// joined. Packages queue and names validate their own options.
func (o Options) validate(own source) error {
	check := option.Of("reconcile.Options")
	check.That(o.Workers > 0, "Workers", o.Workers, "must be more than 0")
	check.That(o.ReconcileTimeout > 0, "ReconcileTimeout", o.ReconcileTimeout, "must be more than 0")
	check.That(o.Grace > 0, "Grace", o.Grace, "must be more than 0")
	check.That(o.FreshnessDeadline > 0, "FreshnessDeadline", o.FreshnessDeadline, "must be more than 0")
	check.That(o.MinInterval >= 0, "MinInterval", o.MinInterval, option.Negative)
	check.That(o.Resync >= 0, "Resync", o.Resync, option.Negative)
	check.That(o.Leader == nil || o.Shards == nil, "Leader", option.Set,
		"must be nil with Shards: one replica works, or all do")
	for field, value := range map[string]any{"Leader": o.Leader, "Shards": o.Shards, "Events": o.Events} {
		check.That(value == nil || !bound.IsNil(value), field, option.Word("an interface with a nil pointer in it"),
			"must be nil itself: assign the variable only if its pointer is not nil")
	}
	check.That(o.Sweep == nil || o.Known != nil, "Sweep", option.Set,
		"must be nil without Known: there are no names to sweep")
	check.That(o.Known == nil || isNil(own) || own.Parts().Shown(), "Known", option.Set,
		"must be nil if the client of the informer does not show which namespaces it reads, or a name of another "+
			"namespace would count as deleted: make the informer with informer.ForNamespaces")
	check.That(len(o.FieldManager) <= maxFieldManager, "FieldManager", o.FieldManager,
		"must have at most %d bytes", maxFieldManager)
	for i, t := range o.Triggers {
		validateTrigger(check, fmt.Sprintf("Triggers[%d]", i), t, own)
	}
	var errs []error
	for _, s := range sourcesOf(own, o.Triggers) {
		errs = append(errs, s.Parts().Validate())
		if s.Status().Wrapped && (o.Shards != nil || o.Leader != nil) {
			field, last := "Leader", "leader"
			if o.Shards != nil {
				field, last = "Shards", "owner of a shard"
			}
			check.Wrong(field, option.Set, "the informer of %s must be made by informer.For: an informer of clientgo.Wrap does "+
				"not know whether its cache shows what the last %s wrote", s.Name(), last)
		}
	}
	return errors.Join(append(errs, check.Err())...)
}

// maxFieldManager is the API server's limit on the length of a field manager
// (apimachinery, metav1 validation: FieldManagerMaxLength).
const maxFieldManager = 128

// validateTrigger records the errors of a trigger. own is the informer of the
// controller's objects. The servers of two informers are compared only if both
// are known; the servers of fakes are not known.
func validateTrigger(check *option.Check, field string, t Trigger, own source) {
	if t == nil {
		check.Wrong(field, nil, "use Owned, Mapped, References or External")
		return
	}
	kind := option.Word(t.triggerType())
	if e, ok := t.(external); ok {
		check.That(e.name != "", field, kind, "must have a name, which appears in causes and logs")
		check.That(e.f != nil, field, kind, "must have a channel or a function, but %q has neither", e.name)
		return
	}
	if m, ok := t.(interface{ hasFunction() bool }); ok && !m.hasFunction() {
		check.Wrong(field, kind, "must have a function that returns keys")
	}
	if r, ok := t.(referring); ok && own.objectType() != r.ownerType() {
		check.Wrong(field, kind, "must have a function that takes the controller's own objects, %v, and not %v",
			own.objectType(), r.ownerType())
	}
	s := t.source()
	if isNil(s) {
		check.Wrong(field, kind, "must have an informer: make one with informer.For")
		return
	}
	if isNil(own) {
		return
	}
	ownServer, server := own.Status().Server, s.Status().Server
	if ownServer != server && ownServer != "" && server != "" {
		check.Wrong(field, kind, "must not watch another cluster: "+
			"the informer of %s reads from %s, and the informer of the controller's own %s from %s: "+
			"resourceVersions of two clusters cannot be compared; give the other cluster a controller of its own, "+
			"which writes its findings into an object of this one", s.Name(), server, own.Name(), ownServer)
	}
}

// guardedGroup wraps Options.Group in a function that never panics and never
// ends the goroutine (runtime.Goexit). A key for which Options.Group does
// either is in the group "". It returns nil without Options.Group.
func guardedGroup(c *Controller) func(Key) string {
	if c.options.Group == nil {
		return nil
	}
	return func(key Key) (group string) {
		const function = "reconcile.Options.Group"
		if err := c.guarded(function, key, func() { group = c.options.Group(key) }); err != nil {
			c.logPanic(err, function+" panicked; the key has no group", c.name, key)
		}
		return group
	}
}

// ownersFor returns the owners of a controller whose own informer is primary.
// It returns the zero value if no trigger was made by Owned, and an error if
// the kind or the scope is unknown or differs from the client's.
func ownersFor(primary source, triggers []Trigger) (owners, error) {
	if !slices.ContainsFunc(triggers, func(t Trigger) bool { return t.triggerType() == "owned" }) {
		return owners{}, nil
	}
	mapping, err := primary.Parts().Mapping()
	if err != nil {
		return owners{}, fmt.Errorf("%w: correct it, or use Mapped instead of Owned", err)
	}
	var errs []error
	if mapping.GroupVersionKind.Kind == "" {
		errs = append(errs, errors.New("Owned needs the kind of the controller's own objects: set informer.Options.Kind"))
	}
	if mapping.Scope == nil {
		errs = append(errs, errors.New("Owned needs to know whether the controller's own objects have a namespace: "+
			"make their informer with informer.ForNamespaces, or set informer.Options.Scope"))
	}
	if err := errors.Join(errs...); err != nil {
		return owners{}, err
	}
	return owners{
		kind: mapping.GroupVersionKind.Kind, group: mapping.GroupVersionKind.Group,
		anyGroup:   mapping.GroupVersionKind.Version == "",
		namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}, nil
}
