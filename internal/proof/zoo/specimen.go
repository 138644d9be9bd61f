package zoo

import (
	"slices"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Program is a controller, of the type of reconciletest.Case.Run.
type Program = func(env *reconciletest.Env) error

// Specimen is one bug.
type Specimen struct {
	Name  string
	Class string
	// World is the case without Run; its Goal holds for the twin.
	World func() *reconciletest.Case
	// Options are the options of the exploration. The test sets the budget.
	Options reconciletest.Options

	// Bug and Twin are on client-go. Found is the oracle that tells them apart.
	Bug, Twin Program
	Found     string

	// SDKBug and SDKTwin are on Homeostat. SDKFound is the oracle, or "" if the
	// bug survives there, and Why gives the reason. Without SDKBug the bug
	// cannot be written there, and Why names the replacement.
	SDKBug, SDKTwin Program
	SDKFound        string
	Why             string
}

// wiring describes how reconciles are called, in the same way for both
// harnesses.
type wiring struct {
	// reconcile makes the reconcile of one boot.
	reconcile func() Reconcile
	// deleting calls the reconcile for Apps that are being deleted, too.
	deleting bool
	// gone is called for Apps that do not exist.
	gone gone
}

// reconciles sets the programs of a bug that is in the reconcile.
func (s Specimen) reconciles(bug, twin wiring) Specimen {
	s.Bug, s.Twin = onClientGo(bug), onClientGo(twin)
	s.SDKBug, s.SDKTwin = onSDK(bug), onSDK(twin)
	return s
}

// always makes a reconcile without a memory.
func always(t Reconcile) wiring { return wiring{reconcile: func() Reconcile { return t }} }

// Catalogue lists all specimens, class by class.
func Catalogue() []Specimen {
	return slices.Concat(
		intermediate(), replies(), failures(), staleness(), edges(), travels(), mutations(), unsynced(), lostUpdates(),
		owners(), expectations(), leaders(), hotLoops(), fights(), finalizers(), triggers(), ghosts(), orders(), lies(),
		stops(),
	)
}
