// Command new writes an operator for a kind of your own: a Go module that
// compiles, passes its tests and deploys.
//
//	go run github.com/homeostat/homeostat/operator/new@latest --group example.com --kind Widget
//
// You do not need a checkout of this repository. Continue with the README.md of
// the new module.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Exit codes.
const (
	exitError = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	info, _ := debug.ReadBuildInfo() // nil if the program was built without modules: sourceOf returns an error then
	code := run(ctx, info, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run writes the module that args specify, and returns the exit code: 0 if the
// module was written or --help was given, exitError if writing failed, and
// exitUsage if the command line is wrong. It reports all mistakes in the
// command line at once.
func run(ctx context.Context, info *debug.BuildInfo, args []string, stdout, stderr io.Writer) int {
	var n parameters
	var dir, replace string
	fs := flag.NewFlagSet("new", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&n.Group, "group", "", "API `group` of the kind, a domain that you own, such as example.com")
	fs.StringVar(&n.Kind, "kind", "", "`name` of the kind in CamelCase, such as Widget")
	fs.StringVar(&n.Version, "version", "v1alpha1", "API `version` of the kind")
	fs.StringVar(&n.Plural, "plural", "", "`plural` of the kind in lower case (default: the regular English plural "+
		"of the kind)")
	fs.StringVar(&n.Module, "module", "", "`path` of the Go module (default: <group>/<kind>-operator)")
	fs.BoolVar(&n.ClusterScoped, "cluster-scoped", false, "objects of the kind belong to no namespace, like Nodes")
	fs.BoolVar(&n.Secret, "secret", false, "each object names a Secret, and the operator may read only the Secrets "+
		"that are named")
	fs.StringVar(&dir, "dir", "", "`folder` to write, new or empty (default: <kind>-operator)")
	fs.StringVar(&replace, "replace", "", "`folder` of a checkout of Homeostat to use instead of a released version")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return exitUsage // package flag has reported err
	}
	n = n.withDefaults()
	err = n.validate()
	if fs.NArg() > 0 {
		err = errors.Join(err, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	source, sourceErr := sourceOf(info, replace)
	if err := errors.Join(err, sourceErr); err != nil {
		say(stderr, "%v\nnothing was written; --help lists the flags\n", err)
		return exitUsage
	}
	files, err := render(n, source)
	if err == nil {
		dir = cmp.Or(dir, n.Program)
		err = write(dir, files, func(folder string) error { return tidy(ctx, folder, stderr) })
	}
	if err != nil {
		say(stderr, "writing module %s: %v\n", n.Module, err)
		return exitError
	}
	join := ""
	if file := foreignWorkspace(ctx, dir); file != "" {
		join = fmt.Sprintf("  go work use .       # adds the module to %s; without it, go builds nothing here\n", file)
	}
	say(stdout, `wrote module %s; next:
  cd %s
%s  go test ./...       # a unit test, and an exploration of everything that can go wrong
  make install run    # for the cluster of your kubeconfig
README.md has the next steps.
`, n.Module, dir, join)
	return 0
}

// say writes a message for people. It ignores errors, because there is no other
// place to report them.
func say(out io.Writer, message string, args ...any) {
	_, _ = fmt.Fprintf(out, message, args...)
}
