package apisim

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	defaultHistory = 10_000 // events of one resource
	firstVersion   = 100
)

// Options configure a [Server]. Nil and zero fields mean the defaults.
type Options struct {
	// Resources are the custom resources that the server serves in addition to the
	// built-in ones.
	Resources []Resource
	// History is the number of past events that are kept for each resource.
	// Older events are compacted, and a watch that starts before them gets 410.
	// Defaults to 10,000.
	History int
	// Lifecycle refuses new objects in namespaces that do not exist or are
	// terminating, as the real server does. The server then starts with the
	// usual namespaces. Without Lifecycle every namespace can be used.
	Lifecycle bool
	// ManagedFields records for every write which manager owns which fields, as
	// the real server does. Otherwise, recording starts with the first server-side
	// apply to an object. That is far cheaper.
	ManagedFields bool
	// NoStreamingLists refuses sendInitialEvents, as older servers do.
	// Reflectors then list before they watch, and deliver the objects in order.
	// A streaming list would pass through a map of the reflector, and no seed
	// can determine the order of a map.
	NoStreamingLists bool
	// Shards lets lists and watches have a shardSelector by namespace
	// (KEP-5866). Otherwise the server ignores it, like servers without the
	// feature ShardedListAndWatch.
	Shards bool
	// Incomplete accepts new objects of built-in kinds without the fields that
	// the real server requires, such as a Pod without containers or a
	// Deployment without a selector. It also turns off other rules for them,
	// such as the rule that the PriorityClass of a Pod must exist.
	Incomplete bool
	// Silent is an aggregated API whose server does not answer. Discovery lists
	// it without resources, and every other request for it gets 503. Defaults
	// to no such API.
	Silent schema.GroupVersion
	// Skew returns how far the server's clock is ahead of the clock of a client
	// of [Server.Config]. The client sees every time shifted later by this
	// difference, and every time that it sends is shifted earlier by the same
	// difference before it is stored. All clocks run at the same speed.
	// Defaults to no difference.
	Skew func(client string) time.Duration
	// Seed determines the uids and generated names. A uid also depends on the
	// resource, the namespace, the name, and the number of earlier objects of
	// that name. A generated name also depends on the resource, the namespace,
	// the prefix, and the number of names that were made from them before.
	Seed uint64
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	v.History = cmp.Or(v.History, defaultHistory)
	return v
}

func (o *Options) validate() error {
	var errs []error
	if o.History < 1 {
		errs = append(errs, fmt.Errorf("Options.History is %d: must be at least 1", o.History))
	}
	for i, r := range o.Resources {
		if r.Group == "" || r.Version == "" || r.Resource == "" || r.Kind == "" {
			errs = append(errs, fmt.Errorf("Options.Resources[%d] is %+v: group, version, resource and kind must be set",
				i, r.GVR()))
		}
	}
	return errors.Join(errs...)
}
