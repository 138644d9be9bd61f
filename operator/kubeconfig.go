package operator

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

const (
	// readInterval is how long the contents of a kubeconfig are used before a
	// request reads it again.
	readInterval = 10 * time.Second
	// retryInterval replaces readInterval after a failed request, and while
	// the file has never been readable.
	retryInterval = time.Second
)

// kubeconfig follows the credentials in a kubeconfig file for one API server.
// Requests read the file again when it may have changed, so there is no
// goroutine. A kubeconfig that names a different server is refused, because it
// may be a different cluster.
type kubeconfig struct {
	rules   *clientcmd.ClientConfigLoadingRules
	context string       // the name of the current context at the start
	first   *rest.Config // the config that was read at the start, from which clients are made
	unread  bool         // the file could not be read at the start, so first has no real server

	latest  atomic.Pointer[login] // nil while first is up to date
	readErr atomic.Pointer[error] // the error of the last reading, or nil

	reading sync.Mutex // guards the fields below
	readAt  time.Time
	cluster identity
	refused refusal
}

// login is a version of the kubeconfig that was read after the start.
type login struct {
	config *rest.Config

	mu sync.Mutex // guards connections
	// connections contains the transports with the changed certificates. The
	// key is the original transport that each of them replaces. Clients that
	// shared a transport still share one.
	connections map[*http.Transport]http.RoundTripper
}

// readKubeconfig reads the file or, if file is empty, the files that kubectl
// would read.
//
// It returns an error if there is no kubeconfig, or if the kubeconfig cannot be
// used.
func readKubeconfig(file string) (*kubeconfig, error) {
	k := &kubeconfig{rules: clientcmd.NewDefaultClientConfigLoadingRules(), readAt: time.Now()}
	k.rules.ExplicitPath = file
	raw, err := k.rules.Load()
	if err == nil {
		k.context = raw.CurrentContext
		k.first, err = k.configOf(raw)
	}
	if clientcmd.IsEmptyConfig(err) {
		if file == "" {
			return nil, fmt.Errorf("finding a cluster: this process does not run in a Pod, and there is no kubeconfig in %s: "+
				"set --kubeconfig or KUBECONFIG", strings.Join(k.rules.GetLoadingPrecedence(), ", "))
		}
		err = fmt.Errorf("%s names no cluster: %w", file, err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return k, nil
}

// unreadKubeconfig returns a kubeconfig for a file that could not be read
// because of err. Requests fail until the file can be read. Their URLs have a
// server name that does not exist and that contains the name of the cluster.
func unreadKubeconfig(name, file string, err error) *kubeconfig {
	k := &kubeconfig{
		rules: clientcmd.NewDefaultClientConfigLoadingRules(), unread: true,
		first: &rest.Config{Host: "https://" + name + ".invalid"},
	}
	k.rules.ExplicitPath = file
	k.readErr.Store(&err)
	return k
}

// isUnread reports whether the file has never been readable.
func (k *kubeconfig) isUnread() bool { return k != nil && k.unread && k.latest.Load() == nil }

// problems returns the error of the last reading as a problem. k may be nil.
func (k *kubeconfig) problems(check string) []inspect.Problem {
	if k == nil {
		return nil
	}
	err := k.readErr.Load()
	if err == nil {
		return nil
	}
	p := inspect.Problem{Check: check, Cause: "kubeconfig", Reason: (*err).Error()}
	switch {
	case errors.Is(*err, errOtherServer):
		p.Remedy = "restart the program if the new server is the right one"
	case errors.Is(*err, errOtherCluster):
		p.Remedy = "restart the program if the new cluster is the right one and has its objects"
	case errors.Is(*err, errUnknownCluster):
		p.Remedy = "it is asked again; if the answer stays the same, restart the program, which then uses the new credentials"
	}
	return []inspect.Problem{p}
}

// errOtherServer is the error of a kubeconfig whose server differs from the one
// at the start.
var errOtherServer = errors.New("the kubeconfig names a different server now")

// config returns a copy of the config that was read when the program started.
// Clients of that copy use new credentials when the file changes, unless a
// plugin renews the credentials.
func (k *kubeconfig) config() *rest.Config {
	config := rest.CopyConfig(k.first)
	if config.ExecProvider == nil && config.AuthProvider == nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &follower{kubeconfig: k, next: next} })
	}
	return config
}

// load reads the files, and returns their config.
func (k *kubeconfig) load() (*rest.Config, error) {
	raw, err := k.rules.Load()
	if err != nil {
		return nil, err
	}
	return k.configOf(raw)
}

// canBeReadAgain reports whether none of the files is a pipe or another special
// file. A pipe, such as the one of --kubeconfig=<(…), can be read only once: a
// later reading finds no kubeconfig, or waits for a writer.
func (k *kubeconfig) canBeReadAgain() bool {
	return !slices.ContainsFunc(k.rules.GetLoadingPrecedence(), func(file string) bool {
		info, err := os.Stat(file)
		return err == nil && !info.Mode().IsRegular() && !info.IsDir()
	})
}

// configOf returns the config of the context that was current at the start, or
// of the current one if that context is no longer in the file.
func (k *kubeconfig) configOf(raw *clientcmdapi.Config) (*rest.Config, error) {
	context := k.context
	if _, found := raw.Contexts[context]; !found {
		context = raw.CurrentContext
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, context, nil, k.rules).ClientConfig()
	return config, withoutPasswords(err, raw)
}

// withoutPasswords returns the error about a kubeconfig without the passwords in
// the addresses of proxies, which client-go quotes.
func withoutPasswords(err error, raw *clientcmdapi.Config) error {
	var addresses []string
	for _, c := range raw.Clusters {
		addresses = append(addresses, c.ProxyURL)
	}
	shown := redact.Addresses(err, addresses...)
	if err != nil && shown.Error() != err.Error() {
		return fmt.Errorf("%w: %w", shown, redact.ErrAddress)
	}
	return shown
}

// follow reads the file again, unless it was read less than interval ago,
// another request is reading it, or it is a pipe. If the file cannot be used,
// follow records the error and keeps the old credentials.
func (f *follower) follow(req *http.Request, interval time.Duration) {
	k := f.kubeconfig
	if !k.reading.TryLock() {
		return
	}
	defer k.reading.Unlock()
	if time.Since(k.readAt) < interval {
		return
	}
	k.readAt = time.Now()
	if !k.canBeReadAgain() {
		return
	}
	current := k.first
	if l := k.latest.Load(); l != nil {
		current = l.config
	}
	config, err := k.load()
	switch {
	case err != nil:
		err = fmt.Errorf("reading the kubeconfig again: %w", err)
	case k.isUnread():
		k.use(req, newLogin(config))
	case config.Host != current.Host:
		err = fmt.Errorf("%w: %s instead of %s", errOtherServer, redact.Address(config.Host),
			redact.Address(current.Host))
	case !k.unread && (config.ExecProvider != nil || config.AuthProvider != nil):
		err = errors.New("the kubeconfig has a credential plugin now, but had none at the start")
	case hasLogin(current) && !hasLogin(config):
		err = fmt.Errorf("the kubeconfig has no credentials for %s now", redact.Address(config.Host))
	case !sameLogin(config, current):
		err = f.change(req, config)
	default:
		k.refused = refusal{}
		f.learn(req)
	}
	if err == nil {
		k.readErr.Store(nil)
		return
	}
	if previous := k.readErr.Swap(&err); previous == nil || (*previous).Error() != err.Error() {
		klog.FromContext(req.Context()).Error(err,
			"reading the kubeconfig failed, keeping the old credentials and retrying later")
	}
}

func newLogin(config *rest.Config) *login {
	return &login{config: config, connections: map[*http.Transport]http.RoundTripper{}}
}

// use makes all clients use l.
func (k *kubeconfig) use(req *http.Request, l *login) {
	k.latest.Store(l)
	klog.FromContext(req.Context()).Info("read changed credentials from the kubeconfig",
		"server", redact.Address(l.config.Host))
}

// sameLogin reports whether two configs have the same credentials. It ignores
// the token if both have the same token file, because client-go reads the file
// again by itself.
func sameLogin(a, b *rest.Config) bool {
	return sameConnection(a, b) && a.BearerTokenFile == b.BearerTokenFile &&
		(a.BearerToken == b.BearerToken || a.BearerTokenFile != "") &&
		a.Username == b.Username && a.Password == b.Password && reflect.DeepEqual(a.Impersonate, b.Impersonate)
}

// hasLogin reports whether a config has credentials.
func hasLogin(c *rest.Config) bool {
	return c.BearerToken != "" || c.BearerTokenFile != "" || c.Username != "" || c.CertFile != "" || len(c.CertData) > 0
}

// sameConnection reports whether two configs have the same TLS settings.
func sameConnection(a, b *rest.Config) bool {
	return reflect.DeepEqual(a.TLSClientConfig, b.TLSClientConfig)
}

// connection returns the transport that replaces base, which uses the
// certificates that the kubeconfig had at the start. It returns a transport
// unchanged that client-go has not made. For example, a client makes its own
// transport to upgrade a connection to SPDY.
func (l *login) connection(base http.RoundTripper) (http.RoundTripper, error) {
	inner := base
	for {
		wrapped, ok := inner.(utilnet.RoundTripperWrapper)
		if !ok {
			break
		}
		inner = wrapped.WrappedRoundTripper()
	}
	old, ok := inner.(*http.Transport)
	if !ok {
		return base, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.connections[old] == nil {
		made, err := rest.TransportFor(&rest.Config{
			Host: l.config.Host, TLSClientConfig: l.config.TLSClientConfig, Proxy: old.Proxy, Dial: old.DialContext,
			DisableCompression: old.DisableCompression,
		})
		if err != nil {
			return nil, err
		}
		l.connections[old] = made
	}
	return l.connections[old], nil
}

// follower is a round tripper that sends requests with the credentials that the
// kubeconfig has now. It is the innermost wrapper.
type follower struct {
	*kubeconfig
	next http.RoundTripper

	mu     sync.Mutex // guards the fields below
	login  *login
	sender http.RoundTripper // sends requests with the credentials of login
}

// WrappedRoundTripper returns the inner round tripper, as client-go requires of
// wrappers.
func (f *follower) WrappedRoundTripper() http.RoundTripper { return f.next }

// RoundTrip sends a request with the current credentials. It first reads the
// file again if the last reading is older than readInterval. If the request
// fails, or if the server answers 401, RoundTrip reads the file once more, for
// later requests, unless it was read within retryInterval.
func (f *follower) RoundTrip(req *http.Request) (*http.Response, error) {
	interval := readInterval
	if f.isUnread() {
		interval = retryInterval
	}
	f.follow(req, interval)
	res, err := f.send(req)
	if err != nil || res.StatusCode == http.StatusUnauthorized {
		f.follow(req, retryInterval)
	}
	return res, err
}

func (f *follower) send(req *http.Request) (*http.Response, error) {
	l := f.latest.Load()
	switch {
	case l == nil && f.unread:
		return nil, unsentError{errors.New("the kubeconfig of the cluster has not been readable so far")}
	case l == nil:
		return f.next.RoundTrip(req)
	}
	return f.sendWith(l, req)
}

// sendWith sends a request with the credentials of l.
func (f *follower) sendWith(l *login, req *http.Request) (*http.Response, error) {
	sender, err := f.withLogin(l)
	if err != nil {
		return nil, unsentError{fmt.Errorf("using the changed kubeconfig: %w", err)}
	}
	req = utilnet.CloneRequest(req)
	if f.unread {
		return f.redirect(sender, req, l.config)
	}
	if first := f.first; first.BearerToken != "" || first.BearerTokenFile != "" || first.Username != "" {
		req.Header.Del("Authorization")
	}
	if !reflect.DeepEqual(f.first.Impersonate, rest.ImpersonationConfig{}) {
		forgetImpersonation(req.Header)
	}
	return sender.RoundTrip(req)
}

// unsentError is the error of a request that was not sent.
type unsentError struct{ error }

var _ ownwrites.NeverSent = unsentError{}

// NeverSent implements [ownwrites.NeverSent].
func (unsentError) NeverSent() bool { return true }

func (e unsentError) Unwrap() error { return e.error }

// redirect sends a request to the server of config. It is for a request that
// was made before the server was known.
func (f *follower) redirect(sender http.RoundTripper, req *http.Request, config *rest.Config) (*http.Response, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, unsentError{fmt.Errorf("using the kubeconfig: %w", err)}
	}
	target := *req.URL
	target.Scheme, target.Host = server.Scheme, server.Host
	target.Path = strings.TrimSuffix(server.Path, "/") + target.Path
	req.URL, req.Host = &target, ""
	return sender.RoundTrip(req)
}

// withLogin returns a transport that adds the credentials of l to each request.
func (f *follower) withLogin(l *login) (http.RoundTripper, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.login == l {
		return f.sender, nil
	}
	if f.unread {
		sender, err := rest.TransportFor(l.config)
		if err == nil {
			f.login, f.sender = l, sender
		}
		return sender, err
	}
	connection := f.next
	if !sameConnection(l.config, f.first) {
		var err error
		if connection, err = l.connection(f.next); err != nil {
			return nil, err
		}
	}
	sender, err := rest.HTTPWrappersForConfig(&rest.Config{
		BearerToken: l.config.BearerToken, BearerTokenFile: l.config.BearerTokenFile,
		Username: l.config.Username, Password: l.config.Password, Impersonate: l.config.Impersonate,
	}, connection)
	if err == nil {
		f.login, f.sender = l, sender
	}
	return sender, err
}

// forgetImpersonation removes the headers by which the config of the start
// impersonates a user.
func forgetImpersonation(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			h.Del(name)
		}
	}
}
