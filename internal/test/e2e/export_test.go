package e2e

import (
	"context"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Server lets the specs use the unexported type server.
type Server struct{ s *server }

// StartServer is startServer.
func StartServer(program string, args ...string) (Server, error) {
	s, err := startServer(program, args, io.Discard)
	return Server{s}, err
}

// ReadLine is server.readLine.
func (s Server) ReadLine(ctx context.Context) (string, error) { return s.s.readLine(ctx) }

// Command is server.command.
func (s Server) Command(ctx context.Context, line string) error { return s.s.command(ctx, line) }

// Stop is server.stop.
func (s Server) Stop() error { return s.s.stop() }

// Connect is connect.
func Connect(ctx context.Context, s Server) (*Cluster, error) { return connect(ctx, s.s) }

// Decode is decode.
func Decode(text string) ([]*unstructured.Unstructured, error) { return decode(text) }

// Args is Options.args.
func Args(o *Options) []string { return o.args() }

// NewCluster returns a cluster that has a client only.
func NewCluster(client kubernetes.Interface) *Cluster {
	return &Cluster{client: client, config: &rest.Config{}}
}
