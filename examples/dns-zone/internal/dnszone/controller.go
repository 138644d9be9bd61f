package dnszone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/dns-zone/internal/zonefile"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// Name is the controller's name. It also marks the controller's lines in the
// zone file.
const Name = "dns-zone"

// DefaultResync is the default of Options.Resync.
const DefaultResync = time.Minute

// longestLock is how long New waits for the lock of the file.
const longestLock = 10 * time.Second

// maxOrigin is the length of the longest origin. It leaves room for the names
// of a Service and its namespace in a domain name of 253 bytes.
const maxOrigin = 253 - 2*(validation.DNS1123LabelMaxLength+1)

// Options configure the controller. Nil and zero fields mean the defaults.
type Options struct {
	// Resync is the interval at which the records of each Service are checked
	// even if the Service has not changed. So a record that another program has
	// edited is corrected within this time. Defaults to [DefaultResync].
	Resync time.Duration
	// Sweep configures the search for records of deleted Services. Defaults to
	// the defaults of [names.Options], except for Refused: by default, the
	// error about a refused sweep names the flag that allows the sweep.
	Sweep names.Options
	// Events receives warnings. Defaults to no recorder.
	Events events.EventRecorder
	// Leader elects one of several replicas. The controller reconciles only
	// while this replica leads. Defaults to nil: the controller always works.
	Leader reconcile.Leader
}

// New returns a controller for the Services of all namespaces. The caller must
// run the controller. If the zone file is missing, New makes it from
// file.Skeleton. New returns an error if a field of file or of o is invalid, if
// the zone file is missing and there is no skeleton, if the file cannot be read
// or parsed, or if another process holds its lock for ten seconds.
func New(client kubernetes.Interface, file *zonefile.File, o *Options) (*reconcile.Controller, error) {
	var options Options
	if o != nil {
		options = *o
	}
	if err := validate(file); err != nil {
		return nil, fmt.Errorf("making controller %q: %w", Name, err)
	}
	if options.Sweep.Refused == nil {
		options.Sweep.Refused = advise
	}
	return reconcile.New(Name, informer.For(client.CoreV1().Services(""), nil), &reconciler{client, file},
		&reconcile.Options{
			Known: namesIn(file),
			Sweep: &options.Sweep,
			// The file cannot be watched.
			Resync: cmp.Or(options.Resync, DefaultResync),
			Events: options.Events,
			Leader: options.Leader,
		})
}

// namesIn returns a function that lists the names of the Services that have
// records in file.
func namesIn(file *zonefile.File) names.Func {
	return func(ctx context.Context) ([]names.Name, error) {
		keys, err := file.Keys(ctx)
		list := make([]names.Name, len(keys))
		for i, key := range keys {
			list[i].Key = key
		}
		return list, err
	}
}

// advise adds advice to the error about a refused sweep: the command-line flag
// that allows the sweep.
func advise(e *names.RefusedError) {
	e.Advice = fmt.Sprintf("if their Services really are deleted, start once with --confirm-orphans=%d", e.Orphans)
}

func validate(file *zonefile.File) error {
	var errs []error
	if file.Path == "" {
		errs = append(errs, errors.New("File.Path (--zone) is empty: must be the path of the zone file"))
	} else if err := try(file); err != nil {
		errs = append(errs, err)
	}
	origin, dot := strings.CutSuffix(file.Origin, ".")
	if problems := validation.IsDNS1123Subdomain(origin); !dot || len(problems) > 0 || len(origin) > maxOrigin {
		errs = append(errs, fmt.Errorf(
			"File.Origin (--origin) is %q: must be a domain of at most %d bytes with a dot at its end", file.Origin, maxOrigin))
	}
	if file.TTL < 0 {
		errs = append(errs, fmt.Errorf("File.TTL (--ttl) is %d: must not be negative", file.TTL))
	}
	return errors.Join(errs...)
}

// try reads the file. It returns an error if another process has the lock for
// longer than longestLock, because that process hangs.
func try(file *zonefile.File) error {
	ctx, cancel := context.WithTimeout(context.Background(), longestLock)
	defer cancel()
	_, err := file.Keys(ctx)
	return err
}
