package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/homeostat/homeostat/internal/proof/controlplane/supervisor"
)

// parse reads the command line of "run".
func parse(args []string, out io.Writer) (o *supervisor.Options, control bool, err error) {
	o = &supervisor.Options{Progress: out, Flags: map[string][]string{}}
	f := flag.NewFlagSet("controlplane run", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.DataDir, "data-dir", "", "use and keep this `directory`; a second run on it has the same objects, "+
		"port and credentials (default: a temporary one)")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "write the administrator's kubeconfig to this `file` "+
		"(default: one in the data directory)")
	f.IntVar(&o.Port, "port", 0, "the API server's `port` on 127.0.0.1 (default: the last one, or a free one)")
	f.BoolVar(&o.Scheduler, "scheduler", true, "run a kube-scheduler too")
	f.DurationVar(&o.Timeout, "timeout", supervisor.DefaultTimeout, "how long the start may take")
	f.BoolVar(&control, "control", false, "carry out commands from the standard input (\"kill COMPONENT\", "+
		"\"restart\"), and stop at its end")
	f.Func("flag", "pass `COMPONENT:--flag=value` on to a component; may be repeated", func(v string) error {
		name, value, ok := strings.Cut(v, ":")
		if !ok || !strings.HasPrefix(value, "-") {
			return errors.New("must look like kube-apiserver:--v=2")
		}
		o.Flags[name] = append(o.Flags[name], value)
		return nil
	})
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		f.SetOutput(out)
		_, _ = fmt.Fprintf(out, "%s\nflags of run:\n", usage)
		f.PrintDefaults()
		return nil, false, err
	} else if err != nil {
		return nil, false, fmt.Errorf("reading the command line (run -h explains it): %w", err)
	}
	if f.NArg() > 0 {
		return nil, false, fmt.Errorf("reading the command line: unexpected argument %q", f.Arg(0))
	}
	return o, control, nil
}
