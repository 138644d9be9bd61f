package operator

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

const (
	// readEvery is how often a request reads the kubeconfig again.
	readEvery = 10 * time.Second
	// readAgain is how soon a request reads it that the server has refused.
	readAgain = time.Second
)

// kubeconfig reads the credentials for one API server again whenever they may have
// changed. Requests do that: a kubeconfig has no goroutine. It never goes over to
// another server, which nothing proves to be the same cluster.
type kubeconfig struct {
	rules   *clientcmd.ClientConfigLoadingRules
	context string       // the current one at the start
	first   *rest.Config // at the start; requests come with its server and credentials
	unread  bool         // at the start; then first names no server

	now     atomic.Pointer[login] // nil while the first is right
	trouble atomic.Pointer[error] // why the file is not followed; nil if it is

	reading sync.Mutex // guards the following
	read    time.Time
}

// login is a kubeconfig as it was read later.
type login struct {
	config *rest.Config

	mu sync.Mutex // guards connections
	// connections replace those of the start if the certificates have changed;
	// clients that share one then share one now.
	connections map[*http.Transport]http.RoundTripper
}

// readKubeconfig reads the file, or else those of the default rules.
//
// Errors: there is none, or it cannot be used.
func readKubeconfig(file string) (*kubeconfig, error) {
	k := &kubeconfig{rules: clientcmd.NewDefaultClientConfigLoadingRules(), read: time.Now()}
	k.rules.ExplicitPath = file
	raw, err := k.rules.Load()
	if err == nil {
		k.context = raw.CurrentContext
		k.first, err = k.load()
	}
	if clientcmd.IsEmptyConfig(err) {
		if file == "" {
			return nil, errors.New("finding a cluster: this runs in none, and no kubeconfig names one: " +
				"set --kubeconfig or KUBECONFIG")
		}
		err = fmt.Errorf("%s names no cluster: %w", file, err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return k, nil
}

// laterKubeconfig is a kubeconfig that could not be read yet. Until it can be,
// requests fail. They are made for a server that does not exist, whose name
// says which is meant.
func laterKubeconfig(name, file string, err error) *kubeconfig {
	k := &kubeconfig{
		rules: clientcmd.NewDefaultClientConfigLoadingRules(), unread: true,
		first: &rest.Config{Host: "https://" + name + ".invalid"},
	}
	k.rules.ExplicitPath = file
	k.trouble.Store(&err)
	return k
}

// isUnread reports whether no kubeconfig could be read yet.
func (k *kubeconfig) isUnread() bool { return k != nil && k.unread && k.now.Load() == nil }

// problems returns why the file is not followed. There is no file in a Pod.
func (k *kubeconfig) problems(check string) []inspect.Problem {
	if k == nil {
		return nil
	}
	err := k.trouble.Load()
	if err == nil {
		return nil
	}
	p := inspect.Problem{Check: check, Cause: "kubeconfig", Reason: (*err).Error()}
	if errors.Is(*err, errOtherServer) {
		p.Remedy = "restart the program if it is the right one"
	}
	return []inspect.Problem{p}
}

// errOtherServer is the error of a kubeconfig that named a different server at
// the start.
var errOtherServer = errors.New("the kubeconfig names another server now")

// config returns the config of the start, whose clients follow the file. Plugins
// renew their credentials themselves.
func (k *kubeconfig) config() *rest.Config {
	config := rest.CopyConfig(k.first)
	if config.ExecProvider == nil && config.AuthProvider == nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &follower{kubeconfig: k, next: next} })
	}
	return config
}

// load returns the config of the context that was current at the start, or of the
// current one if that has another name now.
func (k *kubeconfig) load() (*rest.Config, error) {
	raw, err := k.rules.Load()
	if err != nil {
		return nil, err
	}
	context := k.context
	if _, found := raw.Contexts[context]; !found {
		context = raw.CurrentContext
	}
	return clientcmd.NewNonInteractiveClientConfig(*raw, context, nil, k.rules).ClientConfig()
}

// follow reads the file again, unless that was done less than an interval ago,
// or is being done.
func (k *kubeconfig) follow(req *http.Request, interval time.Duration) {
	if !k.reading.TryLock() {
		return
	}
	defer k.reading.Unlock()
	if time.Since(k.read) < interval {
		return
	}
	k.read = time.Now()
	latest := k.first
	if l := k.now.Load(); l != nil {
		latest = l.config
	}
	config, err := k.load()
	switch {
	case err != nil:
		err = fmt.Errorf("reading the kubeconfig again: %w", err)
	case k.isUnread():
		k.use(req, config)
	case config.Host != latest.Host:
		err = fmt.Errorf("%w: %s instead of %s", errOtherServer, config.Host, latest.Host)
	case !k.unread && (config.ExecProvider != nil || config.AuthProvider != nil):
		err = errors.New("the kubeconfig has a plugin for its credentials now, and had none at the start")
	case hasLogin(latest) && !hasLogin(config):
		err = fmt.Errorf("the kubeconfig has no credentials for %s now", config.Host)
	case !sameLogin(config, latest):
		k.use(req, config)
	}
	if err == nil {
		k.trouble.Store(nil)
		return
	}
	if before := k.trouble.Swap(&err); before == nil || (*before).Error() != err.Error() {
		klog.FromContext(req.Context()).Error(err, "kept the credentials, reading the kubeconfig again later")
	}
}

// use makes all clients use a config from now on.
func (k *kubeconfig) use(req *http.Request, config *rest.Config) {
	k.now.Store(&login{config: config, connections: map[*http.Transport]http.RoundTripper{}})
	klog.FromContext(req.Context()).Info("read changed credentials from the kubeconfig", "server", config.Host)
}

// sameLogin reports whether two configs have the same credentials. A token in a
// file is read by client-go.
func sameLogin(a, b *rest.Config) bool {
	return sameConnection(a, b) && a.BearerTokenFile == b.BearerTokenFile &&
		(a.BearerToken == b.BearerToken || a.BearerTokenFile != "") &&
		a.Username == b.Username && a.Password == b.Password && reflect.DeepEqual(a.Impersonate, b.Impersonate)
}

// hasLogin reports whether a config has any credentials.
func hasLogin(c *rest.Config) bool {
	return c.BearerToken != "" || c.BearerTokenFile != "" || c.Username != "" || c.CertFile != "" || len(c.CertData) > 0
}

// sameConnection reports whether two configs have the same certificates.
func sameConnection(a, b *rest.Config) bool {
	return reflect.DeepEqual(a.TLSClientConfig, b.TLSClientConfig)
}

// connection returns what sends requests in place of base, whose certificates were
// those of the start. What is no transport of client-go's own stays, such as an
// upgrade to SPDY, for which a client makes one connection.
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

// follower sends the requests of a client with the credentials that the kubeconfig
// has now. It is below all other wrappers.
type follower struct {
	*kubeconfig
	next http.RoundTripper

	mu  sync.Mutex // guards the following
	of  *login
	now http.RoundTripper // next with the credentials of that login
}

// WrappedRoundTripper lets client-go look through the follower.
func (f *follower) WrappedRoundTripper() http.RoundTripper { return f.next }

// RoundTrip sends a request. If the server refuses it, later requests may do
// better.
func (f *follower) RoundTrip(req *http.Request) (*http.Response, error) {
	interval := readEvery
	if f.isUnread() {
		interval = readAgain
	}
	f.follow(req, interval)
	res, err := f.send(req)
	if err != nil || res.StatusCode == http.StatusUnauthorized {
		f.follow(req, readAgain)
	}
	return res, err
}

func (f *follower) send(req *http.Request) (*http.Response, error) {
	l := f.kubeconfig.now.Load()
	switch {
	case l == nil && f.unread:
		return nil, unsentError{errors.New("its kubeconfig could not be read yet")}
	case l == nil:
		return f.next.RoundTrip(req)
	}
	with, err := f.with(l)
	if err != nil {
		return nil, unsentError{fmt.Errorf("using the changed kubeconfig: %w", err)}
	}
	req = utilnet.CloneRequest(req)
	if f.unread {
		return f.redirect(with, req, l.config)
	}
	if first := f.first; first.BearerToken != "" || first.BearerTokenFile != "" || first.Username != "" {
		req.Header.Del("Authorization")
	}
	if !reflect.DeepEqual(f.first.Impersonate, rest.ImpersonationConfig{}) {
		forgetImpersonation(req.Header)
	}
	return with.RoundTrip(req)
}

// unsentError is the error of a request that the server cannot have seen.
type unsentError struct{ error }

var _ ownwrites.NeverSent = unsentError{}

// NeverSent implements [ownwrites.NeverSent].
func (unsentError) NeverSent() bool { return true }

func (e unsentError) Unwrap() error { return e.error }

// redirect sends a request that was made for no server to that of config.
func (f *follower) redirect(by http.RoundTripper, req *http.Request, config *rest.Config) (*http.Response, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, unsentError{fmt.Errorf("using the kubeconfig: %w", err)}
	}
	target := *req.URL
	target.Scheme, target.Host = server.Scheme, server.Host
	target.Path = strings.TrimSuffix(server.Path, "/") + target.Path
	req.URL, req.Host = &target, ""
	return by.RoundTrip(req)
}

// with returns next with the credentials of a login.
func (f *follower) with(l *login) (http.RoundTripper, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == l {
		return f.now, nil
	}
	if f.unread {
		now, err := rest.TransportFor(l.config)
		if err == nil {
			f.of, f.now = l, now
		}
		return now, err
	}
	connection := f.next
	if !sameConnection(l.config, f.first) {
		var err error
		if connection, err = l.connection(f.next); err != nil {
			return nil, err
		}
	}
	now, err := rest.HTTPWrappersForConfig(&rest.Config{
		BearerToken: l.config.BearerToken, BearerTokenFile: l.config.BearerTokenFile,
		Username: l.config.Username, Password: l.config.Password, Impersonate: l.config.Impersonate,
	}, connection)
	if err == nil {
		f.of, f.now = l, now
	}
	return now, err
}

// forgetImpersonation removes the user that the config of the start acts as.
func forgetImpersonation(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			h.Del(name)
		}
	}
}
