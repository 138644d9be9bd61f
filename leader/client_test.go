package leader_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/leader"
)

// network makes connections to a server that can stop working without being
// closed.
type network struct {
	reach func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex // guards the fields below
	lost  bool       // connections that are made do not work
	conns []*netConn // all that were made
}

// netConn is the client's end of a connection.
type netConn struct {
	net.Conn
	mu   sync.Mutex
	dead chan struct{} // while not nil: what is written is lost, and nothing is read
	open bool
}

func (c *netConn) hole() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

func (c *netConn) Write(p []byte) (int, error) {
	if c.hole() != nil {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *netConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if dead := c.hole(); dead != nil {
		<-dead
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *netConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead != nil && c.open {
		close(c.dead)
	}
	c.open = false
	return c.Conn.Close()
}

// breaks makes all open connections, and the connections that are opened while
// lost is set, black holes.
func (n *network) breaks(lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = lost
	for _, c := range n.conns {
		c.mu.Lock()
		if c.dead == nil {
			c.dead = make(chan struct{})
		}
		c.mu.Unlock()
	}
}

// open counts the connections that are open.
func (n *network) open() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.mu.Lock()
		if c.open {
			count++
		}
		c.mu.Unlock()
	}
	return count
}

// closeAll closes all connections.
func (n *network) closeAll() {
	n.mu.Lock()
	conns := slices.Clone(n.conns)
	n.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := n.reach(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &netConn{Conn: conn, open: true}
	n.mu.Lock()
	if n.lost {
		c.dead = make(chan struct{})
	}
	n.conns = append(n.conns, c)
	n.mu.Unlock()
	return c, nil
}

// pipes is a listener without a network.
type pipes struct {
	accepts chan net.Conn
	closed  chan struct{}
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.accepts <- server
	return client, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepts:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (*pipes) Close() error   { return nil }
func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

// network starts a server of the fixture's API.
func (x *fixture) network() (n *network, config *rest.Config) {
	p := &pipes{accepts: make(chan net.Conn, 100), closed: make(chan struct{})}
	n = &network{reach: p.dial}
	server := &http.Server{Handler: http.HandlerFunc(x.serve)} //nolint:gosec // of a pipe
	served := background(func() error { return server.Serve(p) })
	x.T.Cleanup(func() {
		close(p.closed)
		_ = server.Close()
		_ = served()
	})
	config = &rest.Config{Host: "http://server", Dial: n.dial}
	config.ContentType = "application/json"
	return n, config
}

// serve answers requests for Leases in JSON.
func (x *fixture) serve(w http.ResponseWriter, req *http.Request) {
	lease := &coordinationv1.Lease{}
	body, err := io.ReadAll(req.Body)
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, lease)
	}
	switch {
	case err != nil:
	case req.Method == http.MethodGet:
		lease, err = x.API.Get("test")
	case req.Method == http.MethodPost:
		lease, err = x.API.Create(lease)
	default:
		lease, err = x.API.Update(lease)
	}
	var answer any = lease
	w.Header().Set("Content-Type", "application/json")
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		said := status.Status()
		said.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		w.WriteHeader(int(said.Code))
		answer = said
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// The first connection becomes a black hole, as behind a firewall that has lost
// its state.
func TestAConnectionThatStopsWorkingDoesNotEndALeadership(t *testing.T) {
	inBubble(t, func(x *fixture) {
		n, config := x.network()
		leases, err := leader.Client(config)
		x.Expect(err).NotTo(HaveOccurred())
		e := newElector(x.T, leader.Lease{Client: leases, Namespace: "default", Name: "test", Identity: "a"}, nil)
		stop := x.campaign(e, "a")
		pass(time.Minute)
		for range 5 {
			n.breaks(false)
			pass(time.Minute)
			x.Expect(x.Read()).To(Equal([]string{"a leads"}))
			x.Expect(n.open()).To(Equal(1), "the connection that does not work is closed")
		}
		stop()
		x.Released("test")
	})
}

// When the network itself is lost for a while, a lone leader leads again as
// soon as it is back.
func TestALoneLeaderLeadsAgainSoonAfterAnOutage(t *testing.T) {
	inBubble(t, func(x *fixture) {
		n, config := x.network()
		leases, err := leader.Client(config)
		x.Expect(err).NotTo(HaveOccurred())
		e := newElector(x.T, leader.Lease{Client: leases, Namespace: "default", Name: "test", Identity: "a"}, nil)
		stop := x.campaign(e, "a")
		pass(time.Minute)
		n.breaks(true)
		pass(time.Minute)
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: fenced"}))
		n.breaks(false)
		pass(8 * time.Second)
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: fenced", "a leads"}))
		stop()
		x.Released("test")
	})
}

func TestAClientIsRefusedForAConfigThatReachesNoServer(t *testing.T) {
	_, err := leader.Client(&rest.Config{Host: "http://[::1"})
	NewWithT(t).Expect(err).To(MatchError(HavePrefix("making a client for leases: ")))
}

func TestTheRequestsOfALeaderNameTheProgram(t *testing.T) {
	for given, want := range map[string]string{"": rest.DefaultKubernetesUserAgent(), "mine": "mine"} {
		g := NewWithT(t)
		agents := make(chan string, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			agents <- r.UserAgent()
			w.WriteHeader(http.StatusForbidden)
		}))
		config := &rest.Config{Host: server.URL, UserAgent: given}
		leases, err := leader.Client(config)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = leases.Leases("d").Get(t.Context(), "l", metav1.GetOptions{})
		g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		g.Expect(<-agents).To(Equal(want))
		g.Expect(config.UserAgent).To(Equal(given), "the caller's config stays as it is")
		server.Close()
	}
}
