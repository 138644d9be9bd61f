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
	"k8s.io/klog/v2"
)

// Config returns the configuration of the cluster: from the given kubeconfig file,
// or else that of the cluster this process runs in, or else by kubectl's rules
// ($KUBECONFIG, ~/.kube/config). It sends no request. The caller owns the config;
// pass it to [cluster.New], whose clients are not throttled.
//
// Every client made from it reads a changed kubeconfig again, within ten
// seconds, and within a second after the server has refused a request: tokens,
// passwords and certificates may be replaced while the program runs. The server
// stays the one of the start: a kubeconfig that names another needs a restart,
// since nothing proves that both are the same cluster. Files and plugins that
// client-go itself reads again, such as the token of a Pod, are left to it.
// Connections for exec, attach and port-forward use an inline client
// certificate as it was at the start.
//
// Errors: an unreadable kubeconfig, or no cluster configured.
func Config(kubeconfig string) (*rest.Config, error) {
	config, _, err := connect(kubeconfig)
	return config, err
}

// connect returns the config for [Config], and the kubeconfig that it follows,
// which is nil in a Pod.
func connect(file string) (*rest.Config, *kubeconfig, error) {
	if file == "" {
		config, err := rest.InClusterConfig()
		if err == nil {
			return config, nil, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, nil, fmt.Errorf("using the cluster that this runs in: %w", err)
		}
	}
	k, err := readKubeconfig(file)
	if err != nil {
		return nil, nil, err
	}
	return k.config(), k, nil
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
