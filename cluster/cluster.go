package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/proxied"
	"github.com/homeostat/homeostat/internal/reconnect"
	"github.com/homeostat/homeostat/internal/redact"
)

// Options configures a [Cluster]. Nil and zero fields mean the defaults.
type Options struct {
	// UserAgent is the user agent of all requests. Defaults to the user agent
	// of the config or, without one, of client-go.
	UserAgent string
}

// Cluster connects to one API server. Make it with [New]. It is safe for
// concurrent use.
type Cluster struct {
	config *rest.Config

	mu       sync.Mutex // guards the fields below
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
	kinds    []checker
}

// checker is implemented by every [Kind], for any Go types.
type checker interface {
	verify(ctx context.Context) error
	wasChecked() bool
	groupResource() schema.GroupResource
}

// New returns the cluster that config connects to. It sends no request, and
// does not modify config.
//
// The config's QPS or RateLimiter is kept if one of them is set; otherwise
// clients do not limit their rate. A nearby server is asked for uncompressed
// lists, even if the config asks for compressed ones. That costs bandwidth and
// saves CPU time on both sides. Servers are nearby if they have a loopback,
// private or link-local address, the name localhost, kubernetes or
// kubernetes.default, a name that ends in .svc or .svc.cluster.local, or the
// host in a Pod's environment variable KUBERNETES_SERVICE_HOST.
//
// New returns an error if config is nil, or if no client can be built from it.
// For example, it names no server, contradicts itself, has a negative Burst, or
// has unreadable certificates.
func New(config *rest.Config, o *Options) (*Cluster, error) {
	if config == nil {
		return nil, errors.New("configuring a cluster: the rest.Config is nil")
	}
	if config.Host == "" { // client-go would connect to localhost
		return nil, fmt.Errorf("configuring a cluster: %w", option.Wrong("rest.Config.Host", "", "must name the server"))
	}
	host := redact.Address(config.Host)
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil && host != config.Host {
		err = redact.ErrAddress
	}
	if err != nil {
		return nil, fmt.Errorf("configuring the cluster at %q: %w", host, err)
	}
	if _, err := rest.TransportFor(config); err != nil {
		return nil, fmt.Errorf("configuring the cluster at %q: %w", host, err)
	}
	if o == nil {
		o = &Options{}
	}
	c := &Cluster{config: rest.CopyConfig(config)}
	c.config.UserAgent = cmp.Or(o.UserAgent, config.UserAgent, rest.DefaultKubernetesUserAgent())
	if config.QPS == 0 && config.RateLimiter == nil {
		c.config.QPS = -1
	}
	if c.config.QPS > 0 && config.RateLimiter == nil {
		if config.Burst < 0 {
			return nil, fmt.Errorf("configuring the cluster at %q: %w", host,
				option.Wrong("rest.Config.Burst", config.Burst, option.Negative))
		}
		c.config.Burst = cmp.Or(config.Burst, rest.DefaultBurst)
	}
	c.config.DisableCompression = config.DisableCompression || isNear(server.Hostname())
	c.config.Wrap(new(reconnect.Switch).Wrap)
	c.config.Wrap(proxied.Of(config).Wrap)
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &observer{next: next, prefix: server.Path}
	})
	return c, nil
}

// isNear reports whether a host is on this machine or in this network, judged
// by its name or address.
func isNear(host string) bool {
	if host != "" && host == os.Getenv("KUBERNETES_SERVICE_HOST") { // service ranges need not be private
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	switch host = strings.TrimSuffix(host, "."); host {
	case "localhost", "kubernetes", "kubernetes.default":
		return true
	}
	return strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".svc.cluster.local")
}

// Config returns a copy of the cluster's rest.Config, for generated clientsets
// and for any other client that takes one.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Check checks every [Kind] of the cluster that has not been checked
// individually. It sends one request for each, or two after a 404. Call it once
// before the controllers run. It reports a wrong group, version, plural, kind
// or scope. Without it, the only sign of a wrong plural or group would be an
// informer that never syncs. Check leaves out the kinds of the resources in
// optional. Pass the resources that the program can do without.
//
// Check returns the errors of [Kind.Check], joined.
func (c *Cluster) Check(ctx context.Context, optional ...schema.GroupResource) error {
	c.mu.Lock()
	kinds := slices.Clone(c.kinds)
	c.mu.Unlock()
	var errs []error
	for _, k := range kinds {
		if !k.wasChecked() && !slices.Contains(optional, k.groupResource()) {
			errs = append(errs, k.verify(ctx))
		}
	}
	return errors.Join(errs...)
}
