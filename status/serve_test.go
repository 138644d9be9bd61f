package status_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/homeostat/homeostat/status"
)

// serving starts Serve and returns its address.
func serving(t *testing.T, h http.Handler) (address string, stop func() error) {
	t.Helper()
	where := make(chan string, 1)
	logger := funcr.NewJSON(func(line string) {
		if _, rest, ok := strings.Cut(line, `"address":"`); ok {
			address, _, _ := strings.Cut(rest, `"`)
			where <- address
		}
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- status.Serve(ctx, "127.0.0.1:0", h) }()
	select {
	case address = <-where:
	case err := <-ended:
		t.Fatalf("serving: %v", err)
	}
	return address, func() error {
		cancel()
		return <-ended
	}
}

func TestServeAnswersUntilItsContextEnds(t *testing.T) {
	g := NewWithT(t)
	before := gleak.Goroutines()
	handler, err := status.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	address, stop := serving(t, handler)
	response, err := http.Get("http://" + address + "/livez")
	g.Expect(err).NotTo(HaveOccurred())
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	g.Expect(string(body)).To(Equal("ok\n"))
	g.Expect(stop()).To(Succeed())
	_, err = net.Dial("tcp", address)
	g.Expect(err).To(HaveOccurred())
	http.DefaultClient.CloseIdleConnections()
	g.Eventually(gleak.Goroutines, time.Minute).ShouldNot(gleak.HaveLeaked(before))
}

func TestServeLetsAnswersFinish(t *testing.T) {
	g := NewWithT(t)
	asked, finish := make(chan struct{}), make(chan struct{})
	address, stop := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-finish
		_, _ = io.WriteString(w, "finished")
	}))
	answer := make(chan string, 1)
	go func() {
		defer close(answer)
		response, err := http.Get("http://" + address)
		if err != nil {
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer <- string(body)
	}()
	<-asked
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	g.Eventually(func() error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err
	}, time.Minute).Should(HaveOccurred(), "no new requests")
	close(finish)
	g.Expect(<-answer).To(Equal("finished"))
	g.Expect(<-stopped).To(Succeed())
	http.DefaultClient.CloseIdleConnections()
}

func TestServeSaysThatItCannotListen(t *testing.T) {
	g := NewWithT(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer taken.Close()
	err = status.Serve(t.Context(), taken.Addr().String(), http.NotFoundHandler())
	g.Expect(err).To(MatchError(And(HavePrefix("serving status at "), ContainSubstring("in use"))))
}

func TestAnEmptyAddressServesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where a listener would fail the test: it is no durable wait
		g := NewWithT(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- status.Serve(ctx, "", http.NotFoundHandler()) }()
		synctest.Wait()
		g.Expect(ended).NotTo(Receive(), "it waits")
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

// Without a logger, net/http writes to standard error in its own format.
func TestErrorsOfTheServerAreLogged(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	said := make(chan string, 100)
	logger := funcr.NewJSON(func(line string) { said <- line }, funcr.Options{})
	ctx, stop := context.WithCancel(logr.NewContext(t.Context(), logger))
	ended := make(chan error, 1)
	go func() {
		ended <- status.ServeOn(ctx, listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("of a handler") }))
	}()
	_, err = http.Get("http://" + listener.Addr().String())
	g.Expect(err).To(HaveOccurred())
	g.Eventually(said).WithTimeout(time.Minute).Should(Receive(ContainSubstring(": of a handler")))
	stop()
	g.Expect(<-ended).To(Succeed())
}

// Package http serves its global handlers in the place of a nil one, with the
// profiles of net/http/pprof, to everybody. An error of New is easily ignored.
func TestANilHandlerServesNothing(t *testing.T) {
	g := NewWithT(t)
	g.Expect(status.Serve(t.Context(), "127.0.0.1:0", nil)).To(MatchError(ContainSubstring("the handler is nil")))
	g.Expect(status.ServeOn(t.Context(), nil, http.NotFoundHandler())).To(MatchError(ContainSubstring("the listener is nil")))
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status.ServeOn(t.Context(), listener, nil)).To(MatchError(ContainSubstring("the handler is nil")))
	_, err = listener.Accept()
	g.Expect(err).To(MatchError(net.ErrClosed))
}
