package cli

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/homeostat/homeostat/examples/observe/internal/observer"
)

// Defaults of flags.
const (
	defaultListenAddr    = "127.0.0.1:11251"
	defaultLeaseDuration = 15 * time.Second
	defaultMaximumErrors = 20
	defaultRetryCount    = 2
	defaultTimeout       = 10 * time.Minute
	defaultGracePeriod   = 20 * time.Second // the kubelet waits for 30 s
)

// A group is a set of flags that the help shows together.
type group struct {
	title string
	flags *pflag.FlagSet
}

// groups returns the flags, which set the fields of s.
func (s *settings) groups() []group {
	return []group{
		{"Which objects", s.selectionFlags()},
		{"What a command gets", s.inputFlags()},
		{"Deleted objects", s.deletionFlags()},
		{"How commands run", s.commandFlags()},
		{"Failures", s.failureFlags()},
		{"End, and leader election", s.lifecycleFlags()},
		{"Output", s.outputFlags()},
		{"Cluster", s.connection.flagSet()},
	}
}

func newGroup() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags = false
	return f
}

func (s *settings) selectionFlags() *pflag.FlagSet {
	f := newGroup()
	f.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "observe all namespaces")
	f.StringVarP(s.connection.Namespace, "namespace", "n", "",
		"observe this `namespace` (default: the namespace of the kubeconfig)")
	f.StringVarP(&s.selector, "selector", "l", "", "only objects with these `labels`, such as app=web,tier!=cache")
	f.StringVar(&s.fieldSelector, "field-selector", "", "only objects with these `fields`, if the server supports them")
	f.BoolVar(&s.wait, "wait", false, "wait for RESOURCE if the server does not have it yet")
	return f
}

func (s *settings) inputFlags() *pflag.FlagSet {
	f := newGroup()
	f.StringArrayVar(&s.templates, "template", nil,
		"`template` of one more argument; may be repeated")
	f.StringArrayVarP(&s.arguments, "argument", "a", nil, "`template` of one argument; if repeated, the templates "+
		"are joined with blanks and still make one argument, as in oc")
	f.StringVarP(&s.output, "output", "o", "jsonpath",
		"`format` of templates: jsonpath, jsonpath-as-json, go-template, jsonpath-file or go-template-file, "+
			"FORMAT=TEMPLATE for a single template; json: like jsonpath, with only the progress, as JSON, on standard output")
	f.BoolVar(&s.allowMissing, "allow-missing-template-keys", true,
		"a value that an object lacks is empty; if false, no command runs for the object, and it counts as failed")
	f.BoolVar(&s.strict, "strict-templates", false, "the same as --allow-missing-template-keys=false")
	f.StringVar(&s.typeVariable, "type-env-var", "", "`name` of a variable that is set to Sync, Added, Updated or Deleted")
	f.StringVar(&s.objectVariable, "object-env-var", "", "`name` of a variable that is set to the object's JSON "+
		"(at most 128 KiB: --stdin has no limit)")
	f.BoolVar(&s.identity, "identity-env", false,
		"set OBSERVE_NAMESPACE, OBSERVE_NAME, OBSERVE_UID and OBSERVE_RESOURCE_VERSION")
	f.BoolVar(&s.stdin, "stdin", false, "write the object's JSON to the command's standard input")
	f.StringArrayVar(&s.env, "env", nil, "`NAME` or NAME=VALUE: commands get only these variables, and PATH, HOME, LANG, "+
		"TZ and TMPDIR; may be repeated (default: the whole environment)")
	f.BoolVar(&s.allowLeadingDashes, "allow-leading-dashes", false,
		"allow arguments from the cluster that begin with -, even if the command has no -- before them")
	return f
}

func (s *settings) deletionFlags() *pflag.FlagSet {
	f := newGroup()
	f.StringArrayVarP(&s.delete, "delete", "d", nil,
		"`command` that runs, with namespace and name, after an object was deleted; repeat the flag for its arguments")
	f.StringArrayVar(&s.names, "names", nil, "`command` that prints all names that the outside world knows, one "+
		"per line: "+
		"NAMESPACE/NAME or NAME; --delete runs for the names of deleted objects; repeat the flag for its arguments")
	f.IntVar(&s.maxOrphans, "max-orphans", 0, "do not run --delete if more than N of the known names have no "+
		"object; -1: no limit "+
		"(default: if more than half of the names and more than 10 have none, or all of more than 3)")
	return f
}

func (s *settings) commandFlags() *pflag.FlagSet {
	f := newGroup()
	f.IntVar(&s.workers, "workers", 1, "run N commands at once, but never two for one object")
	f.DurationVar(&s.timeout, "timeout", defaultTimeout, "end a command that takes longer; 0: no limit")
	f.DurationVar(&s.gracePeriod, "grace-period", defaultGracePeriod,
		"how long commands may continue after a signal to stop")
	f.DurationVar(&s.minInterval, "min-interval", 0, "shortest time between two commands for one object")
	f.DurationVar(&s.resync, "resync-period", 0, "run --names, and the command for every object, once in each "+
		"period of this length")
	f.BoolVar(&s.dryRun, "dry-run", false, "show what would run; only --names runs, and no Lease is taken")
	return f
}

func (s *settings) failureFlags() *pflag.FlagSet {
	f := newGroup()
	f.IntVar(&s.maximumErrors, "maximum-errors", defaultMaximumErrors,
		"exit after N failed commands; -1: never")
	f.IntVar(&s.retryCount, "retry-count", defaultRetryCount, "how many times to repeat a command at once "+
		"if it ends with the code of --retry-on-exit-code")
	f.IntVar(&s.retryOnExitCode, "retry-on-exit-code", 0, "repeat a command at once if it ends with this `code`; 0: none")
	return f
}

func (s *settings) lifecycleFlags() *pflag.FlagSet {
	f := newGroup()
	f.BoolVar(&s.runOnce, "once", false, "exit when each object has been tried: 0 all succeeded, 2 some failed, "+
		"3 --names failed")
	f.DurationVar(&s.exitAfter, "exit-after", 0, "exit with 0 after this time")
	f.BoolVar(&s.leaderElect, "leader-elect", false, "run commands only while holding a Lease")
	f.StringVar(&s.lease, "lease", "", "`NAMESPACE/NAME` of the Lease "+
		"(default: $POD_NAMESPACE or default, and "+observer.Name+"-RESOURCE)")
	f.DurationVar(&s.durations.LeaseDuration, "leader-elect-lease-duration", defaultLeaseDuration,
		"how long the other replicas wait after the last renewal of the Lease")
	f.DurationVar(&s.durations.RenewDeadline, "leader-elect-renew-deadline", 0,
		"how long the leader works after its last renewal; 0: two thirds of the lease duration")
	f.DurationVar(&s.durations.RetryPeriod, "leader-elect-retry-period", 0,
		"time between two renewals; 0: two fifteenths of the lease duration")
	return f
}

// isOfLease reports whether a flag has an effect only with --leader-elect.
func isOfLease(flag string) bool { return flag == "lease" || strings.HasPrefix(flag, "leader-elect-") }

func (s *settings) outputFlags() *pflag.FlagSet {
	f := newGroup()
	f.BoolVarP(&s.quiet, "quiet", "q", false, "do not print the commands that run")
	f.BoolVar(&s.quiet, "no-headers", false, "the same as --quiet")
	f.StringVar(&s.listenAddr, "listen-addr", defaultListenAddr,
		"`address` that serves /livez, /readyz, /healthz, /metrics and /debug/homeostat; empty: they are not served. "+
			"With --once they are served only if this flag is set")
	f.BoolVar(&s.printMetricsOnExit, "print-metrics-on-exit", false, "write all metrics to standard output at the end")
	f.StringVar(&s.logFormat, "log-format", "text", "`format` of logs on standard error: text or json")
	f.IntVarP(&s.verbosity, "v", "v", 0, "log more with a higher `level`, up to 7")
	f.IntVar(&s.verbosity, "loglevel", 0, "the same as --v")
	f.Bool("version", false, "print the version and the commit, and exit") // cobra does that
	return f
}
