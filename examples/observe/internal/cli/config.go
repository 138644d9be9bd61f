package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// namespaceFile holds the namespace of the Pod that this runs in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// config returns how to reach the cluster, and which namespace is meant if no
// flag names one: those of the cluster that this runs in, if no flag names
// another, else those of the kubeconfig rules.
func (s *settings) config() (config *rest.Config, namespace string, err error) {
	if s.kubeconfig == "" && s.context == "" {
		config, err = rest.InClusterConfig()
		if err == nil {
			own, _ := os.ReadFile(namespaceFile) // without it, the default namespace
			return tuned(config), cmp.Or(strings.TrimSpace(string(own)), metav1.NamespaceDefault), nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", fmt.Errorf("using the cluster that this runs in: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: s.context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err = loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", errors.New("finding a cluster: this runs in none, and no kubeconfig names one: " +
			"set --kubeconfig or KUBECONFIG")
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return tuned(config), namespace, nil
}

func tuned(config *rest.Config) *rest.Config {
	config.UserAgent = "observe"
	config.QPS = -1 // the server has flow control of its own
	return config
}
