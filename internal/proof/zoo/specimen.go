package zoo

import (
	"slices"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Program is a controller, of the type of reconciletest.Case.Run.
type Program = func(env *reconciletest.Env) error

// Specimen is a kind of bug. It has a program with the bug and a twin without
// it, once on client-go and once on Homeostat.
type Specimen struct {
	Name  string
	Class string
	// World returns the case to explore, without Run. The twin reaches its
	// Goal.
	World func() *reconciletest.Case
	// Options are the options of the exploration. The test sets the budget.
	Options reconciletest.Options

	// Bug and Twin are the programs on client-go. Found is the name of the
	// oracle that finds the bug in Bug. No oracle finds a bug in Twin.
	Bug, Twin Program
	Found     string

	// SDKBug and SDKTwin are the programs on Homeostat. SDKFound is the name of
	// the oracle that finds the bug in SDKBug. If no oracle finds it, SDKFound
	// is empty, and Why contains the reason. If the bug cannot be written on
	// Homeostat, SDKBug is nil, and Why names the feature that replaces the
	// faulty code.
	SDKBug, SDKTwin Program
	SDKFound        string
	Why             string
}

// wiring contains the functions that a harness calls. The same wiring works
// with both harnesses, client-go and Homeostat.
type wiring struct {
	// reconcile makes the function that reconciles existing Apps. It is called
	// at each start of the program, so the function loses its memory in a
	// restart.
	reconcile func() Reconcile
	// deleting is true if Apps that are being deleted are reconciled, too.
	deleting bool
	// gone is called for Apps that do not exist.
	gone gone
}

// reconciles returns s with four programs, on client-go and on Homeostat, that
// run the wiring with the bug and the wiring of its twin.
func (s Specimen) reconciles(bug, twin wiring) Specimen {
	s.Bug, s.Twin = onClientGo(bug), onClientGo(twin)
	s.SDKBug, s.SDKTwin = onSDK(bug), onSDK(twin)
	return s
}

// stateless returns a wiring whose reconcile has no memory of earlier calls.
func stateless(t Reconcile) wiring { return wiring{reconcile: func() Reconcile { return t }} }

// Catalogue lists all specimens, class by class.
func Catalogue() []Specimen {
	return slices.Concat(
		intermediate(), replies(), failures(), staleness(), edges(), travels(), mutations(), unsynced(), lostUpdates(),
		owners(), expectations(), leaders(), hotLoops(), fights(), finalizers(), triggers(), ghosts(), orders(), lies(),
		stops(),
	)
}
