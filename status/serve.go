package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// defaultAddress is loopback: who else may see the page is for the program to
// decide.
const defaultAddress = "127.0.0.1:8080"

// How patient a server is with its clients.
const (
	headerTimeout = 5 * time.Second
	answerTimeout = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 5 * time.Second
)

// Serve answers at address with h until ctx ends, then lets answers that are
// under way finish, and returns nil after every goroutine has ended. The
// address is 127.0.0.1:8080 if empty; ":8080" is everywhere, which the kubelet
// needs, and Options.Authorize then, too.
//
// Errors: the address cannot be listened on, or the listener broke.
func Serve(ctx context.Context, address string, h http.Handler) error {
	address = cmp.Or(address, defaultAddress)
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving status at %q: %w", address, err)
	}
	background := context.WithoutCancel(ctx)
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return background },
	}
	klog.FromContext(ctx).Info("serving status", "address", listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = errors.Join(stop(background, server), <-ended)
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving status at %q: %w", address, err)
	}
	return nil
}

// stop lets answers finish, for a while. Then it cuts them off, which is no
// error: their clients were too slow.
func stop(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}
