package observer

import (
	"time"

	"github.com/homeostat/homeostat/examples/observe/internal/argument"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// NoLimit for Options.MaxErrors.
const NoLimit = -1

// Options of an [Observer].
type Options struct {
	// Each is the program and its first arguments that run for an object; nil
	// shows changes and runs nothing. Delete runs for a deleted one.
	Each, Delete []string
	// Names lists the names that the outside world knows; nil knows of none.
	Names names.Lister
	// Namespaced kinds have their namespace as an argument.
	Namespaced bool
	// Arguments come after the name.
	Arguments argument.List
	// LeadingDashes lets arguments from the cluster begin with a dash, even if no
	// "--" is before them.
	LeadingDashes bool

	// TypeVariable, ObjectVariable name variables for the type of change and the
	// object's JSON; empty names none. Identity adds variables for namespace,
	// name, UID and resourceVersion.
	TypeVariable, ObjectVariable string
	Identity                     bool
	// Stdin gives the object's JSON to the program to read.
	Stdin bool

	// MaxErrors stops everything after N failed runs, or is [NoLimit].
	// Arguments that cannot be made count as failures, but not here.
	MaxErrors int
	// RetryCount is how often a run is repeated at once if it ends with
	// RetryExitCode, unless that is 0.
	RetryCount, RetryExitCode int

	// Once stops when each object there is, and each name known, has been tried.
	Once bool
	// DryRun prints commands instead of running them.
	DryRun bool

	// Controller has the controller's options; Known is set from Names.
	Controller reconcile.Options
}

// names of the variables of Options.Identity.
const (
	namespaceVariable = "OBSERVE_NAMESPACE"
	nameVariable      = "OBSERVE_NAME"
	uidVariable       = "OBSERVE_UID"
	versionVariable   = "OBSERVE_RESOURCE_VERSION"
)

// idleCheck is how often an observer that runs once checks whether it is done.
const idleCheck = 20 * time.Millisecond
