package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"time"
)

// proxy passes bytes between the replicas and the API server, until an incident
// disturbs the connections. Its address never changes.
type proxy struct {
	address, server string

	mu          sync.Mutex // guards the fields below
	listener    net.Listener
	connections map[net.Conn]struct{}
	bad         badness
}

// badness describes how an incident disturbs connections. It also applies to
// connections that are already open.
type badness struct {
	swallows bool             // No byte arrives, and no connection is closed.
	delay    time.Duration    // Answers arrive late by this duration.
	present  *tls.Certificate // Clients get this certificate instead of the server's.
}

func newProxy(server string) (*proxy, error) {
	p := &proxy{address: "127.0.0.1:0", server: server, connections: map[net.Conn]struct{}{}}
	return p, p.open()
}

// open starts to listen for connections.
func (p *proxy) open() error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", p.address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.address, p.listener = l.Addr().String(), l
	p.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // The listener is closed.
			}
			go p.serve(c)
		}
	}()
	return nil
}

// shut refuses new connections, and ends the open connections.
func (p *proxy) shut() error {
	p.mu.Lock()
	err := p.listener.Close()
	p.mu.Unlock()
	p.cut()
	return err
}

// cut ends the open connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		_ = c.Close() // The connection is no longer used.
	}
	clear(p.connections)
}

// become disturbs all connections in the way that bad describes. The zero
// badness ends all disturbances. If clients are to get another certificate,
// become closes the open connections.
func (p *proxy) become(bad badness) {
	p.mu.Lock()
	p.bad = bad
	p.mu.Unlock()
	if bad.present != nil {
		p.cut()
	}
}

func (p *proxy) state() badness {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bad
}

func (p *proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections[c] = struct{}{}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	p.keep(client)
	if shown := p.state().present; shown != nil {
		//nolint:gosec // The client ends the handshake.
		_ = tls.Server(client, &tls.Config{Certificates: []tls.Certificate{*shown}}).HandshakeContext(context.Background())
		return
	}
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.keep(server)
	var directions sync.WaitGroup
	directions.Go(func() { p.pass(server, client, func() time.Duration { return 0 }) })
	directions.Go(func() { p.pass(client, server, func() time.Duration { return p.state().delay }) })
	directions.Wait()
}

// pass copies data from one connection to the other until either ends. It keeps
// data that arrives while packets are swallowed, and delivers it later, because
// TCP would send the packets again.
func (p *proxy) pass(dst, src net.Conn, delay func() time.Duration) {
	type chunk struct {
		bytes []byte
		due   time.Time
	}
	chunks := make(chan chunk, 1000)
	var writing sync.WaitGroup
	writing.Go(func() {
		defer dst.Close()
		for c := range chunks {
			<-time.After(time.Until(c.due))
			for p.state().swallows {
				<-time.After(100 * time.Millisecond)
			}
			if _, err := dst.Write(c.bytes); err != nil {
				src.Close()
			}
		}
	})
	for {
		buffer := make([]byte, 32<<10)
		n, err := src.Read(buffer)
		if err != nil {
			break
		}
		chunks <- chunk{buffer[:n], time.Now().Add(delay())}
	}
	close(chunks)
	writing.Wait()
}

// futureCertificate returns a certificate that is not valid yet. To a client
// whose clock is a year behind, every new certificate looks like that.
func futureCertificate(host string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	start := time.Now().AddDate(1, 0, 0)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: start, NotAfter: start.AddDate(1, 0, 0),
		IPAddresses: []net.IP{net.ParseIP(host)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
