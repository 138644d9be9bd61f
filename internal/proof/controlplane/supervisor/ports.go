package supervisor

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
)

// host is the only address on which the components listen.
const host = "127.0.0.1"

// Free ports are looked for below 32768, where the usual systems begin to take
// ports for outgoing connections: a port is free for a moment between the
// search and the child's start, and no connection may take it then.
const (
	lowestPort   = 20000
	highestPort  = 32000
	portAttempts = 1000
)

// ports are the control plane's ports. They are kept in the data directory,
// because a kubeconfig names one.
type ports struct {
	Etcd      int `json:"etcd"`
	EtcdPeer  int `json:"etcdPeer"`
	APIServer int `json:"apiServer"`
	Scheduler int `json:"scheduler"`
}

func address(port int) string {
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// choosePorts returns four different free ports. If apiServer is not 0, it is
// the API server's port.
func choosePorts(apiServer int) (ports, error) {
	var held []io.Closer
	defer func() {
		for _, l := range held {
			_ = l.Close() // It was never used.
		}
	}()
	var found [4]int
	for i := range found {
		l, port, err := holdPort(i == 0, apiServer)
		if err != nil {
			return ports{}, err
		}
		held, found[i] = append(held, l), port
	}
	return ports{APIServer: found[0], Etcd: found[1], EtcdPeer: found[2], Scheduler: found[3]}, nil
}

func holdPort(given bool, port int) (io.Closer, int, error) {
	if given && port != 0 {
		l, err := listen(port)
		return l, port, err
	}
	var last error
	for range portAttempts {
		port = lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := listen(port)
		if err == nil {
			return l, port, nil
		}
		last = err
	}
	return nil, 0, fmt.Errorf("looking for a free port from %d to %d: %d attempts: %w",
		lowestPort, highestPort, portAttempts, last)
}

// free returns an error that names every port of p that is in use, or nil.
func (p ports) free() error {
	var errs []error
	for _, port := range []int{p.APIServer, p.Etcd, p.EtcdPeer, p.Scheduler} {
		l, err := listen(port)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_ = l.Close() // It was never used.
	}
	return errors.Join(errs...)
}

func listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return nil, fmt.Errorf("port %d is busy: stop the program that uses it, or choose a different one: %w", port, err)
	}
	return l, nil
}
