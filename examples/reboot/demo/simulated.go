package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/internal/apisim"
)

// simulated is a simulated API server on a loopback port, in real time.
type simulated struct {
	server     *http.Server
	dir        string
	kubeconfig string
}

func startSimulated() (*simulated, error) {
	sim, err := apisim.New(&apisim.Options{Lifecycle: true, Resources: []apisim.Resource{{
		Group: api.GroupVersion().Group, Version: api.GroupVersion().Version, Resource: api.Resource, Kind: "RebootGroup",
		Status: true, ShortNames: []string{"rbg"},
	}}})
	if err != nil {
		return nil, fmt.Errorf("starting the simulated API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the simulated API server: %w", err)
	}
	s := &simulated{server: &http.Server{Handler: sim.Handler(), ReadHeaderTimeout: time.Minute}}
	go func() { _ = s.server.Serve(listener) }() // ends when stop closes the server
	if s.dir, err = os.MkdirTemp("", "reboot-demo-server-"); err == nil {
		s.kubeconfig = filepath.Join(s.dir, "kubeconfig")
		err = clientcmd.WriteToFile(clientcmdapi.Config{
			Clusters:       map[string]*clientcmdapi.Cluster{"demo": {Server: "http://" + listener.Addr().String()}},
			Contexts:       map[string]*clientcmdapi.Context{"demo": {Cluster: "demo"}},
			CurrentContext: "demo",
		}, s.kubeconfig)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the simulated API server: %w", err), s.stop())
	}
	return s, nil
}

func (s *simulated) stop() error { return errors.Join(s.server.Close(), os.RemoveAll(s.dir)) }
