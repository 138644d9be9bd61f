package observer

import (
	"time"

	"github.com/homeostat/homeostat/examples/observe/internal/argument"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// NoLimit is the value of Options.MaxErrors that means no limit.
const NoLimit = -1

// Options configure an [Observer].
type Options struct {
	// Each is the program, with its first arguments, that runs for an object.
	// If it is nil, changes are only shown. Delete is the program that runs for
	// a deleted object.
	Each, Delete []string
	// Names lists the names that the outside world knows. It may be nil.
	Names names.Lister
	// Namespaced adds the namespace to the arguments.
	Namespaced bool
	// Arguments are the templates of the arguments after the name.
	Arguments argument.List
	// LeadingDashes allows arguments from the cluster to begin with a dash,
	// even without a "--" before them.
	LeadingDashes bool

	// TypeVariable and ObjectVariable name variables for the type of change and
	// the object's JSON. If a name is empty, the variable is not set. Identity
	// adds variables for namespace, name, UID and resourceVersion.
	TypeVariable, ObjectVariable string
	Identity                     bool
	// Stdin passes the object's JSON to the program's standard input.
	Stdin bool

	// MaxErrors stops the observer after this number of failed runs, or is
	// [NoLimit]. Arguments that cannot be made are failures, but do not count
	// here.
	MaxErrors int
	// RetryCount is how often a run that ends with RetryExitCode is repeated at
	// once. If RetryExitCode is 0, no run is repeated.
	RetryCount, RetryExitCode int

	// Once stops the observer when each object and each known name was tried.
	Once bool
	// DryRun prints commands instead of running them.
	DryRun bool

	// Controller has the options of the controller. New sets Known from Names.
	Controller reconcile.Options
}

// These are the names of the variables for Options.Identity.
const (
	namespaceVariable = "OBSERVE_NAMESPACE"
	nameVariable      = "OBSERVE_NAME"
	uidVariable       = "OBSERVE_UID"
	versionVariable   = "OBSERVE_RESOURCE_VERSION"
)

// idleCheck is the interval at which an observer that runs once checks whether
// it is done.
const idleCheck = 20 * time.Millisecond
