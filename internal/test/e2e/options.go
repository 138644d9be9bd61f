package e2e

import (
	"io"
)

// Options configure [Start]. A nil Options means the defaults.
type Options struct {
	// Scheduler also runs a kube-scheduler. Without it, Pods can be created but
	// stay Pending.
	Scheduler bool
	// DataDir is the folder for the data of the control plane. It is created if
	// it is missing, and is kept. A later Start with the same folder has the
	// same objects, ports and credentials. Defaults to a temporary directory,
	// which is removed at the end.
	DataDir string
	// Flags are passed to the components. Each has the form "component:flag",
	// such as "kube-apiserver:--watch-cache=false".
	Flags []string
	// Progress receives lines about the build and, until Stop, everything that
	// the control plane prints to its standard error. By default these lines
	// are discarded.
	Progress io.Writer
}

func (o *Options) withDefaults() Options {
	d := Options{}
	if o != nil {
		d = *o
	}
	if d.Progress == nil {
		d.Progress = io.Discard
	}
	return d
}

// args returns the command line of bin/controlplane.
func (o *Options) args() []string {
	args := []string{"run", "-control", "-scheduler=false"}
	if o.Scheduler {
		args[2] = "-scheduler=true"
	}
	if o.DataDir != "" {
		args = append(args, "-data-dir", o.DataDir)
	}
	for _, f := range o.Flags {
		args = append(args, "-flag", f)
	}
	return args
}
