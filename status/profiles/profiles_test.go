package profiles_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/status"
	"github.com/homeostat/homeostat/status/profiles"
)

// client sends requests to the handler behind package status.
type client struct {
	*WithT
	handler http.Handler
}

func newClient(t *testing.T) client {
	t.Helper()
	g := NewWithT(t)
	everyone := func(*http.Request) error { return nil }
	handler, err := status.New(&status.Options{Authorize: everyone, Profiles: profiles.Handler()})
	g.Expect(err).NotTo(HaveOccurred())
	return client{g, handler}
}

func (c client) get(ctx context.Context, target string) (code int, body string) {
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody).WithContext(ctx))
	return w.Code, w.Body.String()
}

func TestProfilesAreServedToAuthorizedClients(t *testing.T) {
	c := newClient(t)
	code, body := c.get(t.Context(), "/debug/pprof/")
	c.Expect(code).To(Equal(http.StatusOK))
	c.Expect(body).To(And(ContainSubstring("goroutine ("), ContainSubstring("heap ("), ContainSubstring("profile?seconds=N")))
	code, body = c.get(t.Context(), "/debug/pprof/goroutine?debug=1")
	c.Expect(code).To(Equal(http.StatusOK))
	c.Expect(body).To(HavePrefix("goroutine profile: total "))
	for _, target := range []string{"/debug/pprof/heap", "/debug/pprof/profile?seconds=0"} {
		code, body := c.get(t.Context(), target)
		c.Expect(code).To(Equal(http.StatusOK), target)
		c.Expect(body).NotTo(BeEmpty(), target)
	}
	code, _ = c.get(t.Context(), "/debug/pprof/nope")
	c.Expect(code).To(Equal(http.StatusNotFound))
}

func TestOneRecordingAtATimeWhichEndsWithItsClient(t *testing.T) {
	c := newClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan int, 1)
	go func() {
		code := http.StatusConflict
		for code == http.StatusConflict && ctx.Err() == nil { // it may meet one of the others
			code, _ = c.get(ctx, "/debug/pprof/profile?seconds=25")
		}
		first <- code
	}()
	second := func() int {
		code, _ := c.get(t.Context(), "/debug/pprof/profile?seconds=0")
		return code
	}
	c.Eventually(second, 10*time.Second).Should(Equal(http.StatusConflict))
	cancel()
	c.Eventually(first, 10*time.Second).Should(Receive(Equal(http.StatusOK)))
	c.Expect(second()).To(Equal(http.StatusOK))
}
