package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/homeostat/homeostat/operator"
)

// namespaceFile holds the namespace of the Pod that this runs in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// A connection is the way to the cluster: kubectl's flags.
type connection struct {
	*genericclioptions.ConfigFlags

	// The password is not one of ConfigFlags', which would ask on standard input
	// for the user of a kubeconfig that names none.
	username, password string

	flags *pflag.FlagSet
}

func newConnection() *connection {
	c := &connection{ConfigFlags: genericclioptions.NewConfigFlags(true)}
	c.WrapConfigFn = c.tuned
	return c
}

// flagSet returns the flags but for the namespace, which is among others in our
// help.
func (c *connection) flagSet() *pflag.FlagSet {
	c.flags = newGroup()
	namespace := c.Namespace
	c.Namespace = nil
	c.AddFlags(c.flags)
	c.Namespace = namespace
	c.flags.StringVar(&c.username, "username", "", "Username for basic authentication to the API server")
	c.flags.StringVar(&c.password, "password", "", "Password for basic authentication to the API server")
	_ = c.flags.MarkHidden("cache-dir") // there is such a flag, and nothing is cached on disk
	return c.flags
}

// config returns how to reach the cluster, and which namespace is meant if no
// flag names one: those of the cluster that this runs in, if no flag is about
// another, else those of the kubeconfig rules.
func (c *connection) config() (config *rest.Config, namespace string, err error) {
	if c.mayBeHere() {
		config, err = rest.InClusterConfig()
		if err == nil {
			own, _ := os.ReadFile(namespaceFile) // without it, the default namespace
			namespace = cmp.Or(*c.Namespace, strings.TrimSpace(string(own)), metav1.NamespaceDefault)
			return c.here(config), namespace, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", fmt.Errorf("using the cluster that this runs in: %w", err)
		}
	}
	loader := c.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err == nil && len(raw.Clusters) == 0 && *c.APIServer == "" {
		return nil, "", errors.New("finding a cluster: this runs in none, and no kubeconfig names one: " +
			"set --kubeconfig or KUBECONFIG, or --server")
	}
	if config, err = c.elsewhere(); err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return config, namespace, nil
}

// elsewhere returns the config of a kubeconfig, whose clients read it again when it has
// changed, unless flags say more about the server or the credentials.
func (c *connection) elsewhere() (*rest.Config, error) {
	if !c.onlySet("kubeconfig", "request-timeout", "cache-dir", "disable-compression") {
		return c.ToRESTConfig()
	}
	config, err := operator.Config(*c.KubeConfig)
	if err != nil {
		return nil, err
	}
	config.Timeout, _ = clientcmd.ParseTimeout(*c.Timeout) // validate has refused invalid ones
	config.DisableCompression = config.DisableCompression || *c.DisableCompression
	return c.tuned(config), nil
}

// mayBeHere reports whether no flag is about a different cluster than the one that this
// runs in.
func (c *connection) mayBeHere() bool {
	return c.onlySet("as", "as-uid", "as-group", "as-user-extra", "request-timeout", "token", "cache-dir",
		"disable-compression")
}

// onlySet reports whether no other flags than these are set.
func (c *connection) onlySet(names ...string) bool {
	only := true
	c.flags.VisitAll(func(f *pflag.Flag) { only = only && (!f.Changed || slices.Contains(names, f.Name)) })
	return only
}

// here applies to the config of the cluster that this runs in the flags that are
// not about another.
func (c *connection) here(config *rest.Config) *rest.Config {
	config.Timeout, _ = clientcmd.ParseTimeout(*c.Timeout) // validate has refused invalid ones
	config.DisableCompression = *c.DisableCompression
	if *c.BearerToken != "" {
		config.BearerToken, config.BearerTokenFile = *c.BearerToken, ""
	}
	config.Impersonate = rest.ImpersonationConfig{
		UserName: *c.Impersonate, UID: *c.ImpersonateUID, Groups: *c.ImpersonateGroup, Extra: map[string][]string{},
	}
	for _, extra := range *c.ImpersonateUserExtra {
		if key, value, ok := strings.Cut(extra, "="); ok {
			config.Impersonate.Extra[key] = append(config.Impersonate.Extra[key], value)
		}
	}
	return c.tuned(config)
}

// tuned is for a program that watches.
func (c *connection) tuned(config *rest.Config) *rest.Config {
	config.UserAgent = "observe"
	config.QPS = -1 // the server has flow control of its own
	if c.username != "" || c.password != "" {
		config.Username, config.Password = c.username, c.password
	}
	if config.Timeout > 0 { // client-go would apply it to watches, too
		config.Wrap(transport.WrapperFunc(limited(config.Timeout)))
		config.Timeout = 0
	}
	return config
}
