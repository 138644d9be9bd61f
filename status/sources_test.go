package status_test

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile/inspect"
	"github.com/homeostat/homeostat/status"
)

func TestACheckThatEndsItsGoroutineHasFailed(t *testing.T) {
	skips := map[string]func() error{"skips": func() error { runtime.Goexit(); return nil }}
	handler, err := status.New(&status.Options{Liveness: skips, Readiness: skips})
	c := client{NewWithT(t), handler}
	c.Expect(err).NotTo(HaveOccurred())
	for _, path := range []string{"/livez", "/readyz"} {
		code, body := c.get(path)
		c.Expect(code).To(Equal(http.StatusServiceUnavailable))
		c.Expect(body).To(HavePrefix("[-] skips: runtime.Goexit was called"))
	}
}

func TestASourceThatPanicsIsNamedAndLeavesTheProcessReady(t *testing.T) {
	for name, fail := range map[string]func(){"panic: boom": func() { panic("boom") }, "runtime.Goexit was called": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			handler, err := status.New(&status.Options{
				Problems:  func() []inspect.Problem { fail(); return nil },
				Informers: func() []informer.Status { fail(); return nil },
				Readiness: map[string]func() error{"disk": func() error { return nil }},
			})
			c := client{NewWithT(t), handler}
			c.Expect(err).NotTo(HaveOccurred())
			code, body := c.get("/readyz?verbose")
			c.Expect(code).To(Equal(http.StatusOK))
			c.Expect(body).To(And(ContainSubstring("[!] status.Options.Problems: "+name),
				ContainSubstring("[!] status.Options.Informers: "+name), ContainSubstring("[+] disk: ok")))
			code, body = c.get("/metrics")
			c.Expect(code).To(Equal(http.StatusOK))
			c.Expect(body).To(And(ContainSubstring("go_goroutines"), ContainSubstring(
				`homeostat_problems{cause="source fails",check="status.Options.Problems"} 1`)))
			code, body = c.get("/debug/homeostat")
			c.Expect(code).To(Equal(http.StatusOK))
			c.Expect(body).To(ContainSubstring(name))
		})
	}
}

func TestASourceThatHangsIsNamedAndLeavesTheProcessReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		var calls atomic.Int64
		handler, err := status.New(&status.Options{
			Problems: func() []inspect.Problem {
				calls.Add(1)
				<-released
				return []inspect.Problem{{Check: "disk", Cause: "full"}}
			},
			Informers: func() []informer.Status { <-released; return []informer.Status{{Name: "pods", Synced: true}} },
		})
		c := client{NewWithT(t), handler}
		c.Expect(err).NotTo(HaveOccurred())
		for range 3 {
			began := time.Now()
			code, body := c.get("/readyz?verbose")
			c.Expect(time.Since(began)).To(BeNumerically("<=", time.Second), "the kubelet waits for no longer")
			c.Expect(code).To(Equal(http.StatusOK))
			c.Expect(body).To(And(ContainSubstring("[!] status.Options.Problems: no answer for"),
				ContainSubstring("[!] status.Options.Informers: no answer for")))
			for _, path := range []string{"/metrics", "/debug/homeostat"} {
				code, _ = c.get(path)
				c.Expect(code).To(Equal(http.StatusOK))
			}
		}
		c.Expect(calls.Load()).To(BeEquivalentTo(1), "it is not called again while it hangs")

		close(released)
		synctest.Wait()
		_, body := c.get("/readyz?verbose")
		c.Expect(body).To(And(ContainSubstring("[!] disk: full"), ContainSubstring("[+] informer/pods: ok"),
			Not(ContainSubstring("no answer"))))
	})
}

func TestEachAnswerAsksASourceOnce(t *testing.T) {
	g := NewWithT(t)
	var informers, problems atomic.Int64
	handler, err := status.New(&status.Options{
		Informers: func() []informer.Status {
			informers.Add(1)
			return []informer.Status{{Name: "pods", Synced: true}}
		},
		Problems: func() []inspect.Problem { problems.Add(1); return nil },
	})
	g.Expect(err).NotTo(HaveOccurred())
	for _, path := range []string{"/readyz", "/metrics", "/debug/homeostat", "/debug/homeostat?format=json"} {
		informers.Store(0)
		problems.Store(0)
		code, _ := client{g, handler}.get(path)
		g.Expect(code).To(Equal(http.StatusOK))
		g.Expect(informers.Load()).To(BeEquivalentTo(1), path)
		g.Expect(problems.Load()).To(BeEquivalentTo(1), path)
	}
}
