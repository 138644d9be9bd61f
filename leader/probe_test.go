package leader_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

// pipeListener is a listener of pipes that can be closed.
type pipeListener struct {
	*pipes
	once sync.Once
}

func (c *pipeListener) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// secured starts a server with TLS, which answer answers for.
func (x *fixture) secured(answer http.HandlerFunc) (*network, *rest.Config) {
	p := &pipeListener{pipes: &pipes{accepts: make(chan net.Conn, 100), closed: make(chan struct{})}}
	n := &network{reach: p.dial}
	server := httptest.NewUnstartedServer(answer)
	_ = server.Listener.Close()
	server.Listener = p
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	x.T.Cleanup(server.Close)
	config := &rest.Config{Host: "https://example.com", Dial: n.dial}
	config.ContentType = "application/json"
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return n, config
}

// lateConnections returns a function that makes late connections. Each of their
// first two reads is late, too: a TLS handshake, and the answer to a request.
func lateConnections(dial func(context.Context, string, string) (net.Conn, error), dials, reads time.Duration,
) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-time.After(dials):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c, err := dial(ctx, network, address)
		if err != nil || reads == 0 {
			return c, err
		}
		return &lateConn{Conn: c, late: reads, closed: make(chan struct{})}, nil
	}
}

// lateConn is a connection whose answers are late.
type lateConn struct {
	net.Conn

	late   time.Duration
	wrote  atomic.Bool
	once   sync.Once
	closed chan struct{}
}

// Close ends a wait, too: a handshake that waits holds a mutex, and the time of
// a bubble stands still while anybody waits for a mutex.
func (c *lateConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// Write notes that an answer is awaited.
func (c *lateConn) Write(p []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(p)
}

// Read reads an answer.
func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.wrote.Swap(false) {
		select {
		case <-time.After(c.late):
		case <-c.closed:
		}
	}
	return n, err
}

// Each of these is "context deadline exceeded" to client-go.
func TestACandidateWithoutAnswersSaysWhatANewConnectionShows(t *testing.T) {
	late := func(d time.Duration, next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			select {
			case <-time.After(d):
				next(w, req)
			case <-req.Context().Done():
				panic(http.ErrAbortHandler) // returning would answer with status 200
			}
		}
	}
	for name, row := range map[string]struct {
		answer       func(x *fixture) http.HandlerFunc
		lost         bool
		dials, reads time.Duration // how long a new connection takes, and each of its first two answers
		want         string
	}{
		"a slow server": {
			answer: func(x *fixture) http.HandlerFunc { return late(7*time.Second, x.serve) },
			want: "the API server at example.com, or a proxy before it, is slow: a new connection was made after 100ms, so " +
				"the network is probably not the reason; its TLS handshake took 100ms, and /readyz was answered 7s later; as a " +
				"stopgap, until it is faster, a lease duration of more than 21s helps: ",
		},
		"a slow handshake": {
			answer: func(x *fixture) http.HandlerFunc { return x.serve },
			reads:  7 * time.Second,
			want: "the API server at example.com, or a proxy before it, is slow: a new connection was made after 100ms, so " +
				"the network is probably not the reason; its TLS handshake took 7s, and /readyz was answered 7s later; as a " +
				"stopgap, until it is faster, a lease duration of more than 42s helps: ",
		},
		"a slow network": {
			answer: func(x *fixture) http.HandlerFunc { return x.serve },
			dials:  7 * time.Second,
			reads:  7 * time.Second,
			want: "the network to the API server at example.com is slow: a new connection was made after 7s; its TLS " +
				"handshake took 7s, and /readyz was answered 7s later; as a stopgap, until it is faster, a lease " +
				"duration of more than 1m3s helps: ",
		},
		"a server that hangs": {
			answer: func(x *fixture) http.HandlerFunc { return late(time.Hour, x.serve) },
			want: "/readyz has no answer: a new connection to example.com is made at once, TLS included, but the request is " +
				"not answered within 30s: run `kubectl get --raw '/readyz?verbose'` on another machine: an answer means that " +
				"the fault is on the way from this replica to the server, and no answer means that it is the API server, or its etcd: ",
		},
		"a server whose etcd hangs": {
			answer: func(x *fixture) http.HandlerFunc {
				return func(w http.ResponseWriter, req *http.Request) {
					if req.URL.Path != "/readyz" {
						late(time.Hour, x.serve)(w, req)
						return
					}
					w.WriteHeader(http.StatusInternalServerError)
					fmt.Fprint(w, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]etcd-readiness failed: reason withheld\n")
				}
			},
			want: "the API server answers, but is not ready: its checks etcd, etcd-readiness fail: ",
		},
		"a server that answers other requests": {
			answer: func(x *fixture) http.HandlerFunc {
				return func(w http.ResponseWriter, req *http.Request) {
					if req.URL.Path != "/readyz" {
						late(time.Hour, x.serve)(w, req)
					}
				}
			},
			want: "the API server and the way to it are quick: /readyz on a new connection was answered with 200 after " +
				"100ms; only requests for Leases get no answer: run `kubectl get leases -A`, and check its etcd: ",
		},
		"a process that does not answer": {
			answer: func(x *fixture) http.HandlerFunc { return x.serve },
			lost:   true,
			want: "nothing comes back: example.com accepts a new connection, but its TLS handshake has no answer after " +
				"10s: run `kubectl get --raw '/readyz?verbose'` on another machine: an answer means that the fault is on the " +
				"way from this replica to the server, and no answer means that it is the API server; on the way look for a " +
				"proxy or load balancer without a server, and for lost packets: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				n, config := x.secured(row.answer(x))
				if row.lost {
					n.breaks(true)
				}
				n.reach = lateConnections(n.reach, row.dials, row.reads)
				leases, err := leader.Client(config)
				x.Expect(err).NotTo(HaveOccurred())
				e := newElector(x.T, leader.Lease{Client: leases, Namespace: "default", Name: "test", Identity: "a"}, nil)
				stop := x.campaign(e, "a")
				pass(6 * time.Second)
				x.Expect(e.Ready()).To(MatchError(HavePrefix(`reading lease "default/test": no answer in time: ` +
					"the cause is not known yet: asking the server's /readyz on a new connection: ")))
				pass(2 * time.Minute)
				x.Expect(e.Ready()).To(MatchError(HavePrefix(`reading lease "default/test": no answer in time: ` + row.want)))
				stop()
				pass(time.Minute) // until late connections are made
				n.closeAll()
			})
		})
	}
}

// A connection through a proxy shows nothing of a connection to the server.
func TestACandidateWithoutAnswersNamesItsProxy(t *testing.T) {
	inBubble(t, func(x *fixture) {
		n, config := x.secured(x.serve)
		config.Proxy = http.ProxyURL(&url.URL{Scheme: "http", User: url.UserPassword("me", "secret"), Host: "proxy:3128"})
		n.breaks(true) // the proxy accepts connections, and answers nothing
		leases, err := leader.Client(config)
		x.Expect(err).NotTo(HaveOccurred())
		e := newElector(x.T, leader.Lease{Client: leases, Namespace: "default", Name: "test", Identity: "a"}, nil)
		stop := x.campaign(e, "a")
		pass(2 * time.Minute)
		x.Expect(e.Ready()).To(MatchError(And(
			HavePrefix(`reading lease "default/test": no answer in time: no new connection to example.com (through the proxy `+
				"http://proxy:3128) can be made (context deadline exceeded): "),
			HaveSuffix("the request goes through the proxy http://proxy:3128 (proxy-url in the kubeconfig, or rest.Config.Proxy)"))))
		stop()
		pass(time.Minute)
		n.closeAll()
	})
}

// A client that is not of this package has no connection of its own to ask on.
func TestACandidateOfAnotherClientSaysHowToFindTheCause(t *testing.T) {
	inBubble(t, func(x *fixture) {
		l := x.API.Link(1)
		l.Reads = leaseapi.Delay{Response: time.Hour}
		e := newElector(x.T, leaseOf(l, "a"), nil)
		stop := x.campaign(e, "a")
		pass(time.Minute)
		x.Expect(e.Ready()).To(MatchError(HavePrefix(`reading lease "default/test": no answer in time: the API server is ` +
			"slow or hangs, or packets are lost: run `kubectl get --raw '/readyz?verbose'` on another machine: an answer " +
			"means that the fault is on the way from this replica to the server, and no answer means that it is the API server: ")))
		stop()
	})
}

// Only the time of an answer differs from probe to probe.
func TestACauseThatDidNotChangeIsLoggedOnce(t *testing.T) {
	inBubble(t, func(x *fixture) {
		var answers atomic.Int64
		_, config := x.secured(func(_ http.ResponseWriter, req *http.Request) {
			select {
			case <-time.After(time.Duration(7+answers.Add(1)%3) * time.Second):
			case <-req.Context().Done():
				panic(http.ErrAbortHandler)
			}
		})
		leases, err := leader.Client(config)
		x.Expect(err).NotTo(HaveOccurred())
		e := newElector(x.T, leader.Lease{Client: leases, Namespace: "default", Name: "test", Identity: "a"}, nil)
		var lines []string
		logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		ctx, cancel := context.WithCancel(klog.NewContext(x.T.Context(), logger))
		stopped := background(func() error { return e.Run(ctx, func(context.Context) error { return nil }) })
		pass(10 * time.Minute)
		logged := slices.Clone(lines)
		cancel()
		_ = stopped()
		x.Expect(logged).To(HaveExactElements(ContainSubstring("not known yet"), ContainSubstring("is slow")))
	})
}

// The last answer before shows whether the clock of this machine is right.
func TestACertificateOutOfItsTimeIsComparedWithTheServersClock(t *testing.T) {
	const (
		agreed = `this clock agreed with the server's in its last answer, at 2000-01-01T00:0\d:\d\dZ, and was not set since: ` +
			`look at the certificate; `
		unknown = "run `date -u` on this machine and on another machine: if the times differ, the clock is wrong, and otherwise the " +
			"certificate; "
		other = "it is not signed by an authority that this program trusts: another server has answered, or the authority is new"
	)
	for name, row := range map[string]struct {
		answered, trusted bool
		want              string
	}{
		"of another server":       {true, false, agreed + other},
		"of the server":           {true, true, agreed + "it is signed by an authority that this program trusts"},
		"before the first answer": {false, false, unknown + other},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) { x.testLateCertificate(row.answered, row.trusted, row.want) })
		})
	}
}

// testLateCertificate replaces the certificate of a server by one of next year,
// before or after its first answer.
func (x *fixture) testLateCertificate(answered, trusted bool, want string) {
	n, config := x.secured(x.serve)
	first := n.reach
	var replaced atomic.Bool
	replaced.Store(!answered)
	late := certificateOf(x.T, time.Now().AddDate(1, 0, 0))
	if trusted {
		config.CAData = append(config.CAData, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: late.Certificate[0]})...)
	}
	n.reach = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !replaced.Load() {
			return first(ctx, network, address)
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			_ = tls.Server(server, &tls.Config{Certificates: []tls.Certificate{late}}).HandshakeContext(ctx)
		}()
		return client, nil
	}
	leases, err := leader.Client(config)
	x.Expect(err).NotTo(HaveOccurred())
	e := newElector(x.T, leader.Lease{Client: leases, Namespace: "default", Name: "test", Identity: "a"}, nil)
	stop := x.campaign(e, "a")
	pass(time.Minute)
	replaced.Store(true)
	n.closeAll()
	pass(time.Minute)
	x.Expect(e.Ready()).To(MatchError(MatchRegexp(`the certificate of the server is not valid before 2001-01-01T00:00:00Z, ` +
		`and the clock of this machine says 2000-01-01T00:0\d:\d\dZ: ` + want + `; it is for "example.com", its issuer is "", ` +
		`and it is valid from 2001-01-01T00:0\d:\d\dZ to 2002-01-01T00:0\d:\d\dZ$`)))
	stop()
}

// certificateOf returns a certificate of example.com that is valid from start
// on.
func certificateOf(t *testing.T, start time.Time) tls.Certificate {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: start, NotAfter: start.AddDate(1, 0, 0), DNSNames: []string{"example.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
