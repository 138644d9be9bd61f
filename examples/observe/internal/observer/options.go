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
	// Each is the program that runs for an object, followed by its first
	// arguments. If it is nil, added and updated objects are only shown. Delete
	// is the program that runs for a deleted object. If it is nil, deletions
	// are neither handled nor shown.
	Each, Delete []string
	// Names lists the names that the outside world knows. The delete command
	// runs for those whose object does not exist, even if the object was
	// deleted before the start. Names may be nil.
	Names names.Lister
	// Namespaced adds the namespace to the arguments.
	Namespaced bool
	// Arguments are the templates of the arguments after the name.
	Arguments argument.List
	// LeadingDashes allows arguments from the cluster to begin with a dash,
	// even without a "--" before them.
	LeadingDashes bool

	// TypeVariable and ObjectVariable are the names of the environment
	// variables for the type of change and for the object's JSON. If a name is
	// empty, the variable is not set. For a deleted object, ObjectVariable is
	// not set, either. Identity adds variables for the namespace, name, UID and
	// resourceVersion.
	TypeVariable, ObjectVariable string
	Identity                     bool
	// Stdin passes the object's JSON to the program's standard input. For a
	// deleted object, the input is empty.
	Stdin bool

	// MaxErrors is the number of failed runs after which the observer stops, or
	// [NoLimit]. An object for which no arguments can be made, or whose
	// command is too large for the system, does not count here, although it is
	// a failure.
	MaxErrors int
	// RetryCount is the maximum number of times that a run is repeated at once
	// if it ends with RetryExitCode. If RetryExitCode is 0, no run is repeated.
	RetryCount, RetryExitCode int

	// Once stops the observer when no work is left. It has then handled every
	// object of the first list, every known name, and changes that happened in
	// the meantime. It does not wait for names that could not be listed. Failed
	// runs are not retried, except as RetryCount says.
	Once bool
	// DryRun prints the commands of Each and Delete instead of running them.
	// Names are listed nevertheless.
	DryRun bool

	// Controller contains the options of the controller. If Names is not nil,
	// New sets Known to a lister of these names.
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
