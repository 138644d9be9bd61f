package inspect

import (
	"fmt"
	"slices"

	"github.com/homeostat/homeostat/informer"
)

// InformerStatus describes an informer and the controllers that use it.
type InformerStatus struct {
	// Status of the informer. Its Name ends with a number if an earlier informer
	// has the same name.
	informer.Status

	// Controllers are the names of the controllers that use it.
	Controllers []string
	// Identity is equal for two statuses of one informer.
	Identity any
}

// Feeds reports whether t is a trigger of this informer. Their names may differ.
func (i InformerStatus) Feeds(t TriggerStatus) bool {
	return t.Identity != nil && i.Identity == t.Identity
}

// Informers returns the state of every informer of the controllers, each once,
// in the order of their first use. It never waits for an informer. C is
// *reconcile.Controller.
func Informers[C interface{ Informers() []InformerStatus }](controllers ...C) []InformerStatus {
	var all []InformerStatus
	names := map[string]int{}
	for _, c := range controllers {
		for _, status := range c.Informers() {
			known := slices.IndexFunc(all, func(i InformerStatus) bool { return i.Identity == status.Identity })
			if known >= 0 {
				all[known].Controllers = append(all[known].Controllers, status.Controllers...)
				continue
			}
			if names[status.Name]++; names[status.Name] > 1 {
				status.Name = fmt.Sprintf("%s-%d", status.Name, names[status.Name])
			}
			all = append(all, status)
		}
	}
	return all
}
