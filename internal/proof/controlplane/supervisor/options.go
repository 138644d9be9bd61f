package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"
)

// DefaultTimeout is how long a start may take until every component is ready.
const DefaultTimeout = 3 * time.Minute

// Options configure a Supervisor. Nil and zero fields mean the defaults.
type Options struct {
	// Executable is the program that has the components as sub-commands.
	// Defaults to the running program.
	Executable string
	// DataDir is the data directory. It is created if it does not exist, and is
	// kept. Defaults to a temporary directory, which is removed at the end.
	DataDir string
	// Kubeconfig is the file for the administrator's kubeconfig. Defaults to a
	// file in the data directory.
	Kubeconfig string
	// Port is the API server's port. Defaults to the port of the previous start
	// with the same data directory, or to a free port at the first start.
	Port int
	// Scheduler also starts a kube-scheduler. Defaults to false.
	Scheduler bool
	// Timeout limits each start. Defaults to [DefaultTimeout].
	Timeout time.Duration
	// Flags are additional flags by component. They override the Supervisor's
	// flags.
	Flags map[string][]string
	// Progress receives a line for each step of a component. Defaults to no
	// output.
	Progress io.Writer
	// Ready is called once, with the path of the kubeconfig, when the control
	// plane is ready for the first time. Defaults to nil.
	Ready func(kubeconfig string)
}

func (o *Options) withDefaults() (Options, error) {
	d := Options{}
	if o != nil {
		d = *o
	}
	if d.Executable == "" {
		self, err := os.Executable()
		if err != nil {
			return d, fmt.Errorf("finding the running program: %w", err)
		}
		d.Executable = self
	}
	d.Timeout = cmp.Or(d.Timeout, DefaultTimeout)
	if d.Progress == nil {
		d.Progress = io.Discard
	}
	if d.Ready == nil {
		d.Ready = func(string) {}
	}
	return d, d.validate()
}

func (o *Options) validate() error {
	var errs []error
	if o.Port < 0 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("port %d: must be 1 to 65535, or 0 for a free one", o.Port))
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v: must be positive", o.Timeout))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Flags)) {
		if !slices.Contains(Components(), name) {
			errs = append(errs, fmt.Errorf("flags for %q: must be for one of %q", name, Components()))
		}
	}
	return errors.Join(errs...)
}
