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

// Options of a roll. Kubeconfig and Program must be set; else nil and zero
// fields mean the defaults.
type Options struct {
	// Kubeconfig is the file that names the cluster, for all processes.
	Kubeconfig string
	// Program is the file that is the controller, or the agent, as its first
	// argument says.
	Program string
	// Simulated is that nothing controls the cluster: no disruption controller
	// looks at budgets.
	Simulated bool
	// Nodes is how many nodes there are, Max how many of them may be unavailable.
	Nodes, Max int
	// Controllers is how many run at once, all of them active.
	Controllers int
	// Calm leaves every process alone.
	Calm bool
	// Timeout bounds the whole roll.
	Timeout time.Duration
	// Out receives the table, or the lines; nothing by default.
	Out io.Writer
	// Table redraws a table instead of writing lines.
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
