package operator

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/leader"
)

// flags contains the values of the flags that every program has.
type flags struct {
	kubeconfig  string
	clusters    map[string]*string // kubeconfigs of Program.Clusters
	logFormat   string
	verbosity   int
	listenAddr  string
	version     bool
	metricsAuth bool
	certFile    string // the certificate of the server at listenAddr
	keyFile     string
	leaderElect bool
	startup     time.Duration

	leaseNamespace string
	durations      leader.Options // the durations of the Lease; zero fields mean the defaults
	identity       string         // the holder name on the Lease
	policyFor      string         // the service account to print the policy for

	given map[string]bool // the flags in the command line, by name
}

// usageError is an error in the command line. The user can correct it.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// parse reads the command line.
//
// It returns [flag.ErrHelp] after it has written the help to w. It returns the
// mistakes in p, joined, or else the mistakes in the command line, joined, as a
// usageError.
func (p Program) parse(args []string, w io.Writer) (*flags, error) {
	f := &flags{clusters: map[string]*string{}}
	if err := p.validateClusters(); err != nil { // flags are named after the clusters
		return f, err
	}
	fs := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // Main reports the error
	if p.Flags != nil {
		p.Flags(fs)
	}
	if err := errors.Join(merge(fs, f.define(p)), p.validate()); err != nil {
		return f, err
	}
	err := fs.Parse(args)
	if err != nil && slices.ContainsFunc(args, isJSONFormat) { // --log-format may follow the wrong argument
		f.logFormat = formatJSON
	}
	if errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(w, cmp.Or(p.Usage, "Usage of "+p.Name+":"))
		fs.SetOutput(w)
		fs.PrintDefaults()
	}
	if err != nil {
		return f, usageError{fmt.Errorf("%w: see --help", err)}
	}
	f.given = map[string]bool{}
	fs.Visit(func(flag *flag.Flag) { f.given[flag.Name] = true })
	if err := f.validate(p, fs.Args()); err != nil {
		return f, usageError{err}
	}
	return f, nil
}

// policyFlag is the name of the flag that prints the fencing policy.
const policyFlag = "print-fencing-policy"

// formatJSON is the value of --log-format for JSON.
const formatJSON = "json"

func isJSONFormat(arg string) bool { return strings.TrimLeft(arg, "-") == "log-format="+formatJSON }

// logsJSON reports whether the program writes each line as a JSON record.
func (f *flags) logsJSON() bool { return f.logFormat == formatJSON }

// merge adds the flags of target to own. target has the flags that every
// program has, and own has the program's own flags.
//
// It returns an error that names the flags that are in both sets.
func merge(own, target *flag.FlagSet) error {
	var errs []error
	clashes := func(name string) bool {
		if own.Lookup(name) == nil {
			return false
		}
		errs = append(errs, option.Wrong("operator.Program.Flags", option.Set,
			"must not define --%s, which every program has: choose a different name", name))
		return true
	}
	clashes("h")
	clashes("help")
	target.VisitAll(func(f *flag.Flag) {
		if !clashes(f.Name) {
			own.Var(f.Value, f.Name, f.Usage)
		}
	})
	return errors.Join(errs...)
}

// define returns a flag set with the flags that every program has.
func (f *flags) define(p Program) *flag.FlagSet {
	fs := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: the cluster of this Pod, "+
		"else $KUBECONFIG or ~/.kube/config)")
	fs.StringVar(&f.logFormat, "log-format", "text", "`format` of the logs: text or json")
	fs.IntVar(&f.verbosity, "v", 0, "log more with a higher `level`, up to 7")
	served := "/livez, /readyz, /metrics and /debug/homeostat"
	if p.Profiles != nil {
		served = "/livez, /readyz, /metrics, /debug/homeostat and /debug/pprof/"
	}
	fs.StringVar(&f.listenAddr, "listen-addr", ":8080", "`address` of "+served+"; empty serves none")
	fs.BoolVar(&f.metricsAuth, "metrics-auth", false, "serve /metrics only to clients with a token whose user may get it")
	fs.StringVar(&f.certFile, "tls-cert-file", "", "serve over TLS with the certificate of this PEM `file`, which is "+
		"read again when it changes; probes and scrapes need the scheme HTTPS then")
	fs.StringVar(&f.keyFile, "tls-private-key-file", "", "`file` with the key of --tls-cert-file")
	fs.BoolVar(&f.version, "version", false, "print the version and the commit, and exit")
	for _, name := range p.clusterNames() {
		f.clusters[name] = fs.String(clusterFlag(name), "", "kubeconfig `file` of the cluster "+name)
	}
	if p.Replicas != Independent {
		f.lease(fs, p.Replicas, p.FencingPolicy != nil)
	}
	durationVar(fs, &f.startup, "startup-timeout", time.Minute, "`how long` to wait for the API server at the start")
	return fs
}

// lease defines the flags of the leader election. If hasPolicy is true, it also
// defines --print-fencing-policy.
func (f *flags) lease(fs *flag.FlagSet, r Replicas, hasPolicy bool) {
	usage := "work only while holding the Lease of this program's name"
	if r == Sharded {
		usage = "share the work with the other replicas, by Leases that begin with this program's name"
	}
	fs.BoolVar(&f.leaderElect, "leader-elect", false, usage)
	fs.StringVar(&f.leaseNamespace, "leader-elect-resource-namespace",
		cmp.Or(os.Getenv("POD_NAMESPACE"), ownNamespace(), "default"),
		"`namespace` of the Lease")
	host, _ := os.Hostname() // validateLease refuses an empty identity
	fs.StringVar(&f.identity, "leader-elect-identity", cmp.Or(os.Getenv("POD_NAME"), host),
		"`name` of this replica on the Lease")
	durationVar(fs, &f.durations.LeaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"`how long` other replicas wait after the last renewal before they take the Lease")
	durationVar(fs, &f.durations.RenewDeadline, "leader-elect-renew-deadline", 0,
		"`how long` the leader trusts a renewal; two thirds of a given lease duration (default 10s)")
	durationVar(fs, &f.durations.RetryPeriod, "leader-elect-retry-period", 0,
		"`how long` between renewals; two fifteenths of a given lease duration (default 2s)")
	if hasPolicy {
		fs.StringVar(&f.policyFor, policyFlag, "", "print the admission policy by which the API server itself "+
			"refuses what replicas without the Lease write, whose Pods have the service account `namespace/name`, and exit")
	}
}

// duration is the value of a flag. Its error says how to write a duration.
type duration time.Duration

// durationVar defines a flag as [flag.FlagSet.DurationVar] does, except that
// the error about an invalid value says how to write a duration.
func durationVar(fs *flag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	fs.Var((*duration)(d), name, usage)
}

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("must be a duration with its unit, such as 15s or 1m30s")
	}
	*d = duration(value)
	return nil
}

// ownNamespace returns the namespace of the Pod, or the empty string outside of
// a Pod.
func ownNamespace() string {
	// There is no such file outside of a Pod.
	text, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return strings.TrimSpace(string(text))
}

// validate returns all mistakes in the program, joined.
func (p Program) validate() error {
	check := option.Of("operator.Program")
	for _, problem := range validation.IsDNS1123Label(p.Name) {
		check.Wrong("Name", p.Name, "%s", problem)
	}
	check.That(p.Setup != nil, "Setup", nil, "must be a function that makes the controllers")
	check.That(p.Replicas <= Independent, "Replicas", p.Replicas, "must be LeaderElected, Sharded or Independent")
	check.That(p.Shards == nil || p.Replicas == Sharded, "Shards", option.Set,
		"must be nil unless Replicas is Sharded: nothing would use them")
	_, err := parseNeeds(p.Needs, p.clusterNames())
	return errors.Join(check.Err(), err)
}

// validate returns all mistakes in the command line, joined. rest contains the
// arguments after the flags. There must not be any.
func (f *flags) validate(p Program, rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", rest[0]))
	}
	if f.logFormat != "text" && !f.logsJSON() {
		errs = append(errs, fmt.Errorf("--log-format is %q: must be text or json", f.logFormat))
	}
	if f.verbosity < 0 {
		errs = append(errs, fmt.Errorf("--v is %d: %s", f.verbosity, option.Negative))
	}
	errs = append(errs, f.validateLease(p), f.validateServer(), f.validatePolicy())
	if f.startup <= 0 {
		errs = append(errs, fmt.Errorf("--startup-timeout is %v: must be more than 0", f.startup))
	}
	for _, name := range p.clusterNames() {
		if *f.clusters[name] == "" && !f.version && !f.printsPolicy() {
			errs = append(errs, fmt.Errorf("--%s is empty: name the kubeconfig of cluster %s", clusterFlag(name), name))
		}
	}
	return errors.Join(errs...)
}

// validateServer returns the mistakes in the flags of the probes, metrics and
// the page.
func (f *flags) validateServer() error {
	var errs []error
	if _, port, err := net.SplitHostPort(f.listenAddr); f.listenAddr != "" {
		if err == nil {
			_, err = net.LookupPort("tcp", port) // it asks no server
		}
		if err != nil {
			errs = append(errs,
				fmt.Errorf("--listen-addr is %q: must be a host and a port, such as :8080: %w", f.listenAddr, err))
		}
	}
	if (f.certFile == "") != (f.keyFile == "") || f.certFile != "" && f.listenAddr == "" {
		errs = append(errs, errors.New("--tls-cert-file, --tls-private-key-file: must both be set, and --listen-addr with "+
			"them, or neither"))
	}
	if f.metricsAuth && f.listenAddr == "" {
		errs = append(errs, errors.New("--metrics-auth is set: must not be set with an empty --listen-addr, which serves "+
			"no metrics"))
	}
	return errors.Join(errs...)
}

// printsPolicy reports whether the program prints its fencing policy and exits.
func (f *flags) printsPolicy() bool { return f.given[policyFlag] }

// validatePolicy returns the mistake in --print-fencing-policy. An empty value
// is a mistake, too, because a shell may have replaced a variable that is not
// set.
func (f *flags) validatePolicy() error {
	namespace, account, _ := strings.Cut(f.policyFor, "/")
	reasons := append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(account)...)
	if !f.printsPolicy() || len(reasons) == 0 {
		return nil
	}
	return fmt.Errorf("--%s is %q: must be the namespace and the name of a service account, such as shop/website: %s",
		policyFlag, f.policyFor, reasons[0])
}

// validateLease returns the mistakes in the flags of the leader election. Such
// a flag without --leader-elect is a mistake, too, because the replicas would
// all work. --leader-elect=false shows that this is intended.
func (f *flags) validateLease(p Program) error {
	if p.Replicas == Independent {
		return nil
	}
	var errs []error
	if d := f.durations.LeaseDuration; d <= 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration is %v: must be more than 0", d))
	}
	for name, d := range map[string]time.Duration{
		"renew-deadline": f.durations.RenewDeadline, "retry-period": f.durations.RetryPeriod,
	} {
		if d < 0 || d == 0 && f.given["leader-elect-"+name] {
			errs = append(errs, fmt.Errorf("--leader-elect-%s is %v: must be more than 0", name, d))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.given)) {
		if strings.HasPrefix(name, "leader-elect-") && !f.given["leader-elect"] {
			errs = append(errs,
				fmt.Errorf("--%s is set: must be used with --leader-elect, without which there is no Lease", name))
		}
	}
	if len(errs) > 0 || !f.leaderElect {
		return errors.Join(errs...)
	}
	_, err := leader.New(leader.Lease{
		Client: &coordinationclient.CoordinationV1Client{}, Namespace: f.leaseNamespace, Name: p.Name, Identity: f.identity,
	}, &f.durations)
	if err != nil {
		return fmt.Errorf("checking the flags --leader-elect-…: %w", err)
	}
	return nil
}

// validateClusters returns the mistakes in Clusters. It is called before flags
// are named after the clusters.
func (p Program) validateClusters() error {
	check := option.Of("operator.Program")
	names := p.clusterNames()
	for i, name := range names {
		field := fmt.Sprintf("Clusters[%d]", i)
		for _, problem := range validation.IsDNS1123Label(name) {
			check.Wrong(field, name, "%s", problem)
		}
		check.That(!slices.Contains(names[:i], name), field, name, "must not be the name of another cluster")
	}
	return check.Err()
}
