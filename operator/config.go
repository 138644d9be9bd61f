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

	"github.com/homeostat/homeostat/internal/redact"
)

// Config returns the configuration of the cluster that kubeconfig names. If
// kubeconfig is empty, it returns the configuration of the cluster that the
// process runs in or, outside of a cluster, the one that kubectl would use
// ($KUBECONFIG, ~/.kube/config). It sends no request. The caller owns the
// config. Pass it to [cluster.New], whose clients are not throttled.
//
// A request of a client of the config reads the kubeconfig again if the last
// reading is ten seconds ago, or one second if the request has failed or was
// answered with 401. So tokens, passwords and certificates can be replaced
// while the program runs. The server cannot be replaced: a kubeconfig with a
// different server requires a restart, because the server may belong to a
// different cluster. New credentials are not used either if they lead to a
// different cluster at the same address. The client recognizes this by the UID
// of the namespace kube-system, if both the old account and the new one may get
// it. Otherwise the program works in the new cluster, and takes the objects of
// the old one for deleted: stop the program before you build a cluster again at
// the same address.
//
// Files that client-go reads again by itself are left to client-go. For
// example, it reads the token of a Pod again every minute, and the file of a
// certificate authority every five minutes. A kubeconfig with a credential
// plugin is not read again, because client-go calls the plugin again.
// Connections for exec, attach and port-forward keep an inline client
// certificate until the restart.
//
// A pipe, such as the one of --kubeconfig=<(…) in a shell, is read once. New
// credentials then require a restart.
//
// Config returns an error if the kubeconfig or the credentials of the Pod
// cannot be read, or if no cluster is configured.
func Config(kubeconfig string) (*rest.Config, error) {
	config, _, err := connect(kubeconfig)
	return config, err
}

// connect returns the result of [Config] and the kubeconfig that the config
// follows. The kubeconfig is nil if the config is the in-cluster config.
func connect(file string) (*rest.Config, *kubeconfig, error) {
	if file == "" {
		config, err := rest.InClusterConfig()
		if err == nil {
			return config, nil, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, nil, fmt.Errorf("loading the in-cluster config: %w", err)
		}
	}
	k, err := readKubeconfig(file)
	if err != nil {
		return nil, nil, err
	}
	return k.config(), k, nil
}

// mostVerbose is the highest V level that is logged. From level 8 on, client-go
// logs the bodies of requests and answers, and with them the contents of
// Secrets.
const mostVerbose = 7

// setVerbosity sets the verbosity of klog. client-go checks it before it logs.
func setVerbosity(level int) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	_ = fs.Set("v", strconv.Itoa(min(level, mostVerbose))) // cannot fail for a number
}

// Logger returns a logger that writes one line per message to w, as text or as
// JSON. It leaves out messages whose V level is higher than verbosity. It also
// leaves out messages of level 8 and more, whatever verbosity is: client-go
// logs the bodies of requests and answers there, such as Secrets. It is safe
// for concurrent use. klog and client-go use it only after klog.SetLogger.
func Logger(w io.Writer, json bool, verbosity int) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-min(verbosity, mostVerbose)), ReplaceAttr: withoutPassword}
	if json {
		return logr.FromSlogHandler(slog.NewJSONHandler(w, options))
	}
	return logr.FromSlogHandler(slog.NewTextHandler(w, options))
}

// withoutPassword removes the user and the password from the address of a
// request, which client-go logs from level 6 on.
func withoutPassword(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "url" && a.Value.Kind() == slog.KindString {
		a.Value = slog.StringValue(redact.Address(a.Value.String()))
	}
	return a
}
