package e2e

import (
	"io"
)

// Options configure Start. Nil and zero fields mean the defaults.
type Options struct {
	// Scheduler also runs a kube-scheduler. Without one, Pods are created and stay Pending.
	Scheduler bool
	// DataDir is created when missing, and kept; a later Start on it has the same objects, ports and credentials.
	// By default a temporary directory is used, and removed at the end.
	DataDir string
	// Flags go to the components, each as "kube-apiserver:--watch-cache=false".
	Flags []string
	// Progress receives lines about the build and the start; by default they are not written.
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

// args is the command line of bin/controlplane.
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
