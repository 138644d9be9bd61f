package leader

import (
	"cmp"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/option"
)

const (
	defaultLeaseDuration = 15 * time.Second
	defaultDrainTimeout  = time.Minute

	// driftShare says which part of the lease duration is set aside for
	// clocks that run at different speeds: a fiftieth, which is 1 % for the
	// leader's clock and 1 % for the observer's clock.
	driftShare = 50
)

// Lease names a Lease of coordination.k8s.io/v1 and the replica that campaigns
// for it. All fields are required.
type Lease struct {
	// Client reads and writes the Lease: clientset.CoordinationV1() of a real
	// or a fake clientset. It needs the verbs get, create and update on leases.
	// Use the client that the function [Client] makes. If the Lease shares a
	// rate limiter or a connection with the work, renewals may be late.
	Client coordinationclient.LeasesGetter

	Namespace string
	Name      string

	// Identity is a name that only this replica has, such as the name of its
	// Pod. The Lease also records a random suffix. So two processes with the
	// same identity are distinguished and never lead at the same time.
	Identity string
}

func (l Lease) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.Namespace, Name: l.Name}
}

func (l Lease) validate() error {
	check := option.Of("leader.Lease")
	check.That(l.Client != nil, "Client", nil, "use clientset.CoordinationV1()")
	check.That(l.Namespace != "", "Namespace", "", "use the namespace that the replicas run in")
	check.That(l.Name != "", "Name", "", "use a name that all replicas share, such as the controller's")
	refuse := func(field, name string, faults []string) {
		for _, fault := range faults {
			check.That(name == "", field, name, "%s", fault) // an empty name has been reported
		}
	}
	refuse("Namespace", l.Namespace, validation.IsDNS1123Label(l.Namespace))
	refuse("Name", l.Name, validation.IsDNS1123Subdomain(l.Name))
	check.That(l.Identity != "", "Identity", "", "use a name that no other replica has, such as the pod's")
	check.That(!strings.ContainsAny(l.Identity, " \t\r\n"), "Identity", l.Identity, "must not contain white space")
	return check.Err()
}

// Options configures an [Elector]. Nil and zero fields mean the defaults. See
// "Trust window" in the package's documentation for the bounds between the
// durations.
type Options struct {
	// LeaseDuration is how long the other replicas wait after the last renewal
	// that they have seen, before they take the Lease. Defaults to 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader trusts a renewal, from the moment it
	// was sent. Defaults to two thirds of LeaseDuration, 10 s.
	RenewDeadline time.Duration
	// RequestTimeout is how long a write of the Lease may take before another
	// attempt is made. When the process stops, a request for the Lease in
	// flight is given up after this time. RequestTimeout is also how long a
	// fenced write may still be under way after the trust has ended. Defaults
	// to a fifth of LeaseDuration, 3 s. With a late RenewDeadline it defaults
	// to nine tenths of the time that is left until LeaseDuration, without the
	// fiftieth of LeaseDuration that is set aside for clocks that drift, but to
	// no less than a twentieth of LeaseDuration.
	RequestTimeout time.Duration
	// RetryPeriod is the time between renewals. A replica that does not lead
	// reads the Lease after the same time and a random addition of up to a
	// fifth, or earlier if the Lease becomes free before that. Defaults to two
	// fifteenths of LeaseDuration, 2 s.
	RetryPeriod time.Duration

	// DrainTimeout is how long the function given to [Elector.Run] may keep
	// running after the leadership was lost before [Elector.Healthy] reports
	// it. Defaults to 1 min.
	DrainTimeout time.Duration

	// Clock is the source of time. Tests use it to simulate clocks that differ.
	// Defaults to the system's clock.
	Clock clock.Clock
}

func (o *Options) withDefaults() Options {
	set := ptr.Deref(o, Options{})
	set.LeaseDuration = cmp.Or(set.LeaseDuration, defaultLeaseDuration)
	set.RenewDeadline = cmp.Or(set.RenewDeadline, set.LeaseDuration*2/3)
	left := set.LeaseDuration - set.RenewDeadline - set.drift()
	set.RequestTimeout = cmp.Or(set.RequestTimeout,
		max(set.LeaseDuration/20, min(set.LeaseDuration/5, left*9/10)))
	set.RetryPeriod = cmp.Or(set.RetryPeriod, set.LeaseDuration*2/15)
	set.DrainTimeout = cmp.Or(set.DrainTimeout, defaultDrainTimeout)
	if set.Clock == nil {
		set.Clock = clock.RealClock{}
	}
	return set
}

// drift returns how far the clocks of two replicas may drift apart within a
// lease duration.
func (o Options) drift() time.Duration { return o.LeaseDuration / driftShare }

// answerTimeout returns how long an answer may take when the Lease is read or
// taken. If taking the Lease took longer, and the first renewal took as long
// again, the term would end before that renewal is answered. Renewals may use
// all that is left of the deadline.
func (o Options) answerTimeout() time.Duration { return o.RenewDeadline / 2 }

// room returns how long the other replicas still wait after the end of a trust
// window. Requests that were sent in the window can arrive during that time.
func (o Options) room() time.Duration { return o.LeaseDuration - o.RenewDeadline }

func (o Options) validate() error {
	check := option.Of("leader.Options")
	positive := func(field string, d time.Duration) { check.That(d > 0, field, d, "must be more than 0") }
	// A Lease has whole seconds, as an int32.
	check.That(o.LeaseDuration <= math.MaxInt32*time.Second, "LeaseDuration", o.LeaseDuration,
		"must be at most %v, because no Lease can contain more", math.MaxInt32*time.Second)
	if err := check.Err(); err != nil {
		return err
	}
	positive("LeaseDuration", o.LeaseDuration)
	positive("RenewDeadline", o.RenewDeadline)
	positive("RequestTimeout", o.RequestTimeout)
	positive("RetryPeriod", o.RetryPeriod)
	positive("DrainTimeout", o.DrainTimeout)
	if err := check.Err(); err != nil {
		return err
	}
	drift := o.drift()
	check.That(o.RenewDeadline < o.LeaseDuration-o.RequestTimeout-drift, "RenewDeadline", o.RenewDeadline,
		"must be less than LeaseDuration %v minus RequestTimeout %v and %v for drift, "+
			"or a late write could arrive after the next leader has started",
		o.LeaseDuration, o.RequestTimeout, drift)
	check.That(o.RetryPeriod < o.RenewDeadline-o.RequestTimeout, "RetryPeriod", o.RetryPeriod,
		"must be less than RenewDeadline %v minus RequestTimeout %v, or one failed renewal ends the leadership",
		o.RenewDeadline, o.RequestTimeout)
	return check.Err()
}
