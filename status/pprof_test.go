package status_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/status"
)

func profiled(t *testing.T, authorize func(*http.Request) error) client {
	t.Helper()
	g := NewWithT(t)
	handler, err := status.New(&status.Options{Authorize: authorize})
	g.Expect(err).NotTo(HaveOccurred())
	return client{g, handler}
}

func everyone(*http.Request) error { return nil }

func TestProfilesAreServedToWhomAuthorizeAllows(t *testing.T) {
	c := profiled(t, everyone)
	code, body := c.get("/debug/pprof/")
	c.Expect(code).To(Equal(http.StatusOK))
	c.Expect(body).To(And(ContainSubstring("goroutine ("), ContainSubstring("heap ("), ContainSubstring("profile?seconds=N")))
	code, body = c.get("/debug/pprof/goroutine?debug=1")
	c.Expect(code).To(Equal(http.StatusOK))
	c.Expect(body).To(HavePrefix("goroutine profile: total "))
	for _, target := range []string{"/debug/pprof/heap", "/debug/pprof/profile?seconds=0"} {
		code, body := c.get(target)
		c.Expect(code).To(Equal(http.StatusOK), target)
		c.Expect(body).NotTo(BeEmpty(), target)
	}
	code, _ = c.get("/debug/pprof/nope")
	c.Expect(code).To(Equal(http.StatusNotFound))
}

func TestProfilesNeedAuthorize(t *testing.T) {
	for want, authorize := range map[int]func(*http.Request) error{
		http.StatusNotFound:  nil,
		http.StatusForbidden: func(*http.Request) error { return errors.New("no") },
	} {
		c := profiled(t, authorize)
		code, _ := c.get("/debug/pprof/heap")
		c.Expect(code).To(Equal(want))
	}
	_, registered := http.DefaultServeMux.Handler(httptest.NewRequest(http.MethodGet, "/debug/pprof/heap", http.NoBody))
	NewWithT(t).Expect(registered).To(BeEmpty(), "the program's default mux serves none, either")
}

func TestOneRecordingAtATimeWhichEndsWithItsClient(t *testing.T) {
	c := profiled(t, everyone)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan int, 1)
	go func() {
		code := http.StatusConflict
		for code == http.StatusConflict && ctx.Err() == nil { // it may meet one of the others
			r := httptest.NewRequest(http.MethodGet, "/debug/pprof/profile?seconds=25", http.NoBody).WithContext(ctx)
			code = c.response(r).StatusCode
		}
		first <- code
	}()
	second := func() int {
		code, _ := c.get("/debug/pprof/profile?seconds=0")
		return code
	}
	c.Eventually(second, 10*time.Second).Should(Equal(http.StatusConflict))
	cancel()
	c.Eventually(first, 10*time.Second).Should(Receive(Equal(http.StatusOK)))
	c.Expect(second()).To(Equal(http.StatusOK))
}
