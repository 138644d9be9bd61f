package roll

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"
)

// Defaults of Options.
const (
	DefaultNodes       = 12
	DefaultMax         = 2
	DefaultControllers = 2
	DefaultTimeout     = 5 * time.Minute
)

// Options configure a roll. Kubeconfig and Program are required. Other nil and
// zero fields mean the defaults.
type Options struct {
	// Kubeconfig is the path of the kubeconfig with which all processes reach
	// the cluster.
	Kubeconfig string
	// Program is the path of the program that runs as the controller or the
	// agent, depending on its first argument.
	Program string
	// Simulated is true if the cluster is a simulated API server. Such a server
	// already serves RebootGroups, and it has no controllers of its own. For
	// example, no disruption controller updates budgets. Defaults to false.
	Simulated bool
	// Nodes is the number of nodes, and Max is how many of them may be
	// unavailable.
	Nodes, Max int
	// Controllers is the number of controllers that run at once. All of them
	// are active.
	Controllers int
	// Calm runs the roll without killing processes. Defaults to false.
	Calm bool
	// Timeout limits the duration of the roll.
	Timeout time.Duration
	// Out receives the progress, as a table or as lines. Defaults to no output.
	Out io.Writer
	// Table shows the progress as a table that is redrawn, instead of lines.
	// Defaults to false.
	Table bool
}

func (o *Options) withDefaults() Options {
	var set Options
	if o != nil {
		set = *o
	}
	set.Nodes = cmp.Or(set.Nodes, DefaultNodes)
	set.Max = cmp.Or(set.Max, DefaultMax)
	set.Controllers = cmp.Or(set.Controllers, DefaultControllers)
	set.Timeout = cmp.Or(set.Timeout, DefaultTimeout)
	if set.Out == nil {
		set.Out = io.Discard
	}
	return set
}

func (o Options) validate() error {
	var errs []error
	if o.Kubeconfig == "" {
		errs = append(errs, errors.New("roll.Options.Kubeconfig is empty"))
	}
	if o.Program == "" {
		errs = append(errs, errors.New("roll.Options.Program is empty"))
	}
	for field, value := range map[string]int{"Nodes": o.Nodes, "Max": o.Max, "Controllers": o.Controllers} {
		if value < 1 {
			errs = append(errs, fmt.Errorf("%s is %d: must be at least 1", "roll.Options."+field, value))
		}
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("roll.Options.Timeout is %v: must not be negative", o.Timeout))
	}
	return errors.Join(errs...)
}
