package metrics

import (
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

var master = named("leader_election_master_status",
	"Whether this replica holds the Lease: 1 on one replica, 0 on the others.", "name")

// leases sends the state of each Lease once, however many controllers share it.
func (s sender) leases(controllers []*reconcile.Controller) {
	held := map[string]bool{}
	for _, c := range controllers {
		if status := c.Status(0); status.LeaseName != "" {
			held[status.LeaseName] = held[status.LeaseName] || status.Phase == inspect.Working
		}
	}
	for name, leads := range held {
		s.gauge(truth(leads), master, name)
	}
}
