package controllerruntime

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/option"
)

// Defaults of Options.
const (
	defaultKeep       = 10 * time.Minute
	defaultKeepAbsent = 24 * time.Hour
)

// Options configures [NewCache]. Nil and zero fields mean the defaults.
type Options struct {
	// OnDemand has an example of each kind whose objects are cached only when
	// they are read, such as &corev1.Secret{}. The example stands for the kind
	// in every representation: typed, unstructured and metadata only. The
	// manager's client must read these kinds from its cache. If, for example,
	// client.CacheOptions.DisableFor has Secrets, no Secret becomes known to
	// this cache, and a controller that watches Secrets gets no events. Defaults
	// to no kinds: every kind that is read or watched is cached as a whole.
	OnDemand []client.Object
	// Keep is the shortest time for which an object stays cached after its last
	// Get. The cache drops the object later than that by up to an eighth of
	// Keep and a few minutes. Keep does not apply to existing objects of a kind
	// that a controller watches, because their events would be lost. Defaults
	// to 10 minutes.
	Keep time.Duration
	// KeepAbsent is how long the name of an object that does not exist is
	// watched after the last Get. It applies to kinds that a controller
	// watches. If the object is created later than that, no reconcile is
	// triggered. KeepAbsent should be longer than the cache's SyncPeriod,
	// because the reconciles that a resync causes read the name again. It must
	// not be shorter than Keep. Defaults to 24 hours, or Keep if that is
	// longer.
	KeepAbsent time.Duration
	// RefuseLists makes List return an error for the kinds in OnDemand.
	// Defaults to false: List asks the server.
	RefuseLists bool
}

func (o *Options) withDefaults() Options {
	out := ptr.Deref(o, Options{})
	out.Keep = cmp.Or(out.Keep, defaultKeep)
	out.KeepAbsent = cmp.Or(out.KeepAbsent, max(defaultKeepAbsent, out.Keep))
	return out
}

// validate returns all mistakes in the options, joined.
func (o *Options) validate() error {
	check := option.Of("controllerruntime.Options")
	for n, example := range o.OnDemand {
		check.That(!bound.IsNil(example), fmt.Sprintf("OnDemand[%d]", n), example,
			"must be an object such as &corev1.Secret{}")
	}
	check.That(o.Keep >= 0, "Keep", o.Keep, option.Negative)
	check.That(o.KeepAbsent >= 0, "KeepAbsent", o.KeepAbsent, option.Negative)
	check.That(o.KeepAbsent < 0 || o.KeepAbsent >= o.Keep, "KeepAbsent", o.KeepAbsent, "must be at least Keep, %v", o.Keep)
	return check.Err()
}
