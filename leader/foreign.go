package leader

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// replicaName matches the end of the names that electors write into a Lease.
var replicaName = regexp.MustCompile(`_[0-9a-f]{8}(\.\d+)?$`) //nolint:gochecknoglobals // compiled once

// isReplica reports whether a holder has the form of the names that electors
// write.
func isReplica(holder string) bool { return replicaName.MatchString(holder) }

// Warning returns an error while a client that is not a replica of this program
// holds the Lease. No replica can lead meanwhile. The error names the holder,
// says how long this replica has seen it, and what a person can do. Warning
// returns nil otherwise. It is for /readyz.
//
// The replica is ready nevertheless: a rollout that replaces a program with
// another elector would otherwise wait for a replica that waits for the
// rollout.
func (e *Elector) Warning() error {
	f := e.candidate.foreign()
	if f.holder == "" {
		return nil
	}
	return errors.New(f.String())
}

// foreign describes a holder that is not a replica. The zero foreign stands for
// no such holder.
type foreign struct {
	holder  string
	renewed bool   // whether this replica has seen a renewal
	text    string // who holds the Lease, since when
	remedy  string
}

func (f *foreign) String() string { return f.text + "; " + f.remedy }

// foreign returns the holder of the Lease if it is not a replica of this
// program and the Lease has not expired.
func (c *candidate) foreign() foreign {
	c.mu.Lock()
	seen := c.seen
	c.mu.Unlock()
	holder, now, free := record.Holder(seen.Lease), c.options.Clock.Now(), seen.FreeAt(c.options.LeaseDuration)
	if holder == "" || isReplica(holder) || !now.Before(free) {
		return foreign{}
	}
	f := foreign{holder: holder, renewed: seen.Since.After(seen.HolderSince)}
	status := Status{Lease: c.lease.key(), Leader: holder, Since: seen.HolderSince}
	f.text = fmt.Sprintf("%s, for %v", status, now.Sub(seen.HolderSince).Round(time.Second))
	ask := fmt.Sprintf("`kubectl -n %s get lease %s -o yaml --show-managed-fields`", c.lease.Namespace, c.lease.Name)
	if f.renewed {
		f.text += ", and sees that it is renewed"
		f.remedy = fmt.Sprintf("stop that client, which is one of the managers that %s shows; a replica takes the "+
			"lease %v after the last renewal", ask, free.Sub(seen.Since))
	} else {
		f.text += ", and has seen no renewal"
		f.remedy = fmt.Sprintf("a replica takes the lease at %s, unless it is renewed; %s shows its managers, which are "+
			"the clients that have written it",
			free.UTC().Format(time.RFC3339), ask)
	}
	return f
}

// logForeign logs a holder that is not a replica when it is first seen, and
// once more when it renews. The latter is an error, because no replica will
// lead until a person stops that client.
func (c *candidate) logForeign(ctx context.Context) {
	f := c.foreign()
	c.mu.Lock()
	known := f.holder == c.logged.holder && f.renewed == c.logged.renewed
	c.logged = f
	c.mu.Unlock()
	switch log := klog.FromContext(ctx); {
	case known || f.holder == "":
	case f.renewed:
		log.Error(errors.New(f.text), "another client holds the lease", "lease", c.lease.key(), "remedy", f.remedy)
	default:
		log.Info("another client holds the lease, waiting", "lease", c.lease.key(), "holder", f.holder)
	}
}
