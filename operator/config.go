package operator

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// Config returns the configuration of the cluster: from the given kubeconfig file,
// or else that of the cluster this process runs in, or else by kubectl's rules
// ($KUBECONFIG, ~/.kube/config). It sends no request. The caller owns the config;
// pass it to [cluster.New], whose clients are not throttled.
//
// Errors: an unreadable kubeconfig, or no cluster configured.
func Config(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err == nil {
			return config, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("using the cluster that this runs in: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("finding a cluster: this runs in none, and no kubeconfig names one: " +
			"set --kubeconfig or KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return config, nil
}

// verbose sets the level of klog's own verbosity, which client-go asks.
func verbose(level int) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	_ = fs.Set("v", strconv.Itoa(level)) // a number is a level
}

// Logger returns a logger that writes one line per message to out, as text or as
// JSON, up to the given V level. It is safe for concurrent use. klog and client-go
// do not use it before klog.SetLogger.
func Logger(out io.Writer, json bool, verbosity int) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity)}
	if json {
		return logr.FromSlogHandler(slog.NewJSONHandler(out, options))
	}
	return logr.FromSlogHandler(slog.NewTextHandler(out, options))
}
