package apisim

import (
	"cmp"
	"errors"
	"fmt"
)

const (
	defaultHistory = 10_000 // events of one resource
	firstVersion   = 100
)

// Options of a [Server]. nil and zero fields mean the defaults.
type Options struct {
	// Resources are served beside the built-in ones: custom resources.
	Resources []Resource
	// History is the number of past events kept for each resource; older ones are compacted: a watch that
	// asks for them gets 410. Defaults to 10,000.
	History int
	// Lifecycle refuses to create objects in namespaces that do not exist or that terminate, as the real
	// server does; the usual namespaces exist then. Without it every namespace is there.
	Lifecycle bool
	// ManagedFields records for every write which manager owns which fields, as the real server does. Without it that
	// begins with the first server-side apply to an object, which is far cheaper.
	ManagedFields bool
	// NoStreamingLists refuses sendInitialEvents, as older servers do: reflectors then list and watch, and deliver
	// the objects in order. A streaming list goes through a map of theirs, whose order no seed fixes.
	NoStreamingLists bool
	// Shards lets lists and watches have a shardSelector by namespace (KEP-5866); otherwise it is ignored, as by servers
	// without the feature ShardedListAndWatch.
	Shards bool
	// Incomplete accepts new objects of built-in kinds without the fields that the real server requires: a Pod without
	// containers, a Deployment without a selector.
	Incomplete bool
	// Seed of the uids and generated names. Beside it a uid depends on the resource, the namespace, the name, and how many
	// objects of that name there were; a generated name on how many were made from its prefix.
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
