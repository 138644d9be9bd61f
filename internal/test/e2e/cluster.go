package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

// A Cluster is a running control plane. Its methods may be called from several
// goroutines at once.
type Cluster struct {
	server     *server
	kubeconfig string
	config     *rest.Config
	client     kubernetes.Interface
	dynamic    dynamic.Interface
	mapper     *restmapper.DeferredDiscoveryRESTMapper
}

// Start builds bin/controlplane if it is missing or older than its sources,
// starts it, and waits until it is ready. It runs until Stop; ctx limits only
// the build and the start. The first build takes minutes, during which
// Options.Progress receives reports.
func Start(ctx context.Context, o *Options) (*Cluster, error) {
	options := o.withDefaults()
	program, err := compile.ControlPlane(ctx, options.Progress)
	if err != nil {
		return nil, err
	}
	s, err := startServer(program, options.args(), options.Progress)
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, s)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return c, nil
}

func connect(ctx context.Context, s *server) (*Cluster, error) {
	line, err := s.readLine(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	path, ok := strings.CutPrefix(line, "export KUBECONFIG=")
	if !ok {
		return nil, fmt.Errorf("starting the control plane: it printed %q instead of its kubeconfig", line)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the control plane: %w", err)
	}
	config.QPS = -1 // The server limits its clients.
	c := &Cluster{server: s, kubeconfig: path, config: config}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
	return c, nil
}

// Config returns a copy of the administrator's configuration, without a
// client-side rate limit.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of the administrator's kubeconfig, which refers
// to no other files.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// KillEtcd ends etcd like kill -9 does. The API server runs without it until
// Restart. The API server retries the connection with increasing delays, so
// Restart may take up to half the time for which etcd was down.
func (c *Cluster) KillEtcd() error { return c.kill("etcd") }

// KillAPIServer ends the API server like kill -9 does. The other components run
// without it until Restart.
func (c *Cluster) KillAPIServer() error { return c.kill("kube-apiserver") }

// KillControllerManager ends kube-controller-manager like kill -9 does. Until
// Restart, the cluster is like an environment without built-in controllers.
func (c *Cluster) KillControllerManager() error { return c.kill("kube-controller-manager") }

func (c *Cluster) kill(component string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.server.command(ctx, "kill "+component); err != nil {
		return fmt.Errorf("killing %s: %w", component, err)
	}
	return nil
}

// Restart starts the killed components on the same data and port, and waits
// until all are ready. If no component was killed, it restarts the whole
// control plane.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.server.command(ctx, "restart"); err != nil {
		return fmt.Errorf("restarting the control plane: %w", err)
	}
	return nil
}

// Stop ends the control plane and waits until all its processes have ended. If
// that takes longer than 30 seconds, Stop kills the main process. The other
// processes then end with it, but Stop does not wait for them. Stop may be
// called again.
func (c *Cluster) Stop() error { return c.server.stop() }
