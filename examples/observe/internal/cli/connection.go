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

// namespaceFile is the file that contains the namespace of this program's Pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// A connection contains kubectl's flags for connecting to a cluster.
type connection struct {
	*genericclioptions.ConfigFlags

	// username and password are not taken from ConfigFlags, because it would
	// ask for a missing user name on standard input.
	username, password string

	flags *pflag.FlagSet
}

func newConnection() *connection {
	c := &connection{ConfigFlags: genericclioptions.NewConfigFlags(true)}
	c.WrapConfigFn = c.tune
	return c
}

// flagSet returns the flags for the connection. It leaves out --namespace,
// which the help shows in another group.
func (c *connection) flagSet() *pflag.FlagSet {
	c.flags = newGroup()
	namespace := c.Namespace
	c.Namespace = nil
	c.AddFlags(c.flags)
	c.Namespace = namespace
	c.flags.StringVar(&c.username, "username", "", "Username for basic authentication to the API server")
	c.flags.StringVar(&c.password, "password", "", "Password for basic authentication to the API server")
	_ = c.flags.MarkHidden("cache-dir") // the flag is accepted, but no data is cached on disk
	return c.flags
}

// config returns the configuration for the cluster, and the namespace that
// --namespace or the configuration names. If the program runs in a cluster, and
// only flags are set that apply to the in-cluster configuration, config returns
// that configuration. Otherwise it applies the kubeconfig rules.
func (c *connection) config() (config *rest.Config, namespace string, err error) {
	if c.mayBeInCluster() {
		config, err = rest.InClusterConfig()
		if err == nil {
			own, _ := os.ReadFile(namespaceFile) // without it, the default namespace
			namespace = cmp.Or(*c.Namespace, strings.TrimSpace(string(own)), metav1.NamespaceDefault)
			return c.inCluster(config), namespace, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", fmt.Errorf("loading the in-cluster config: %w", err)
		}
	}
	loader := c.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err == nil && len(raw.Clusters) == 0 && *c.APIServer == "" {
		return nil, "", errors.New("finding a cluster: this process does not run in a Pod, and there is no kubeconfig: " +
			"set --kubeconfig or KUBECONFIG, or --server")
	}
	if config, err = c.fromKubeconfig(); err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return config, namespace, nil
}

// fromKubeconfig returns the config of a kubeconfig. Its clients read the file
// again when it changes, unless other flags, such as --context or --server,
// override parts of the kubeconfig.
func (c *connection) fromKubeconfig() (*rest.Config, error) {
	if !c.onlySet("kubeconfig", "request-timeout", "cache-dir", "disable-compression") {
		return c.ToRESTConfig()
	}
	config, err := operator.Config(*c.KubeConfig)
	if err != nil {
		return nil, err
	}
	config.Timeout, _ = clientcmd.ParseTimeout(*c.Timeout) // validate has refused invalid ones
	config.DisableCompression = config.DisableCompression || *c.DisableCompression
	return c.tune(config), nil
}

// mayBeInCluster reports whether the in-cluster configuration may be used: all
// flags that are set also apply to it, such as --as and --token. Other flags,
// such as --context and --username, belong to a kubeconfig.
func (c *connection) mayBeInCluster() bool {
	return c.onlySet("as", "as-uid", "as-group", "as-user-extra", "request-timeout", "token", "cache-dir",
		"disable-compression")
}

// onlySet reports whether no flags other than the named ones are set.
func (c *connection) onlySet(names ...string) bool {
	matches := true
	c.flags.VisitAll(func(f *pflag.Flag) { matches = matches && (!f.Changed || slices.Contains(names, f.Name)) })
	return matches
}

// inCluster returns the in-cluster config with the settings of the flags that
// apply to it, such as --request-timeout.
func (c *connection) inCluster(config *rest.Config) *rest.Config {
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
	return c.tune(config)
}

// tune adapts a config to a program that watches for a long time.
func (c *connection) tune(config *rest.Config) *rest.Config {
	config.UserAgent = "observe"
	config.QPS = -1 // the server has flow control of its own
	if c.username != "" || c.password != "" {
		config.Username, config.Password = c.username, c.password
	}
	if config.Timeout > 0 { // client-go would apply the timeout to watches, too
		config.Wrap(transport.WrapperFunc(limited(config.Timeout)))
		config.Timeout = 0
	}
	return config
}
