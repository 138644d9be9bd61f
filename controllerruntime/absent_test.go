package controllerruntime_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// answers404 are bodies of answers with status 404. None of them says that an
// object does not exist: a list of a name without an object is empty.
var answers404 = map[string]struct{ contentType, body string }{
	"a page in text":        {"text/plain", "404 page not found"},
	"a page in HTML":        {"text/html", "<html>Not Found</html>"},
	"the JSON of a gateway": {"application/json", `{"error":"no route"}`},
	"an empty body":         {"", ""},
	"a version that is not served": {"application/json", `{"kind":"Status","apiVersion":"v1","metadata":{},` +
		`"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound",` +
		`"details":{},"code":404}`},
	"another object": {"application/json", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"namespaces \"shop\" not found","reason":"NotFound","details":{"name":"shop","kind":"namespaces"},` +
		`"code":404}`},
}

// answer404 makes a proxy answer every request for Secrets. With an empty name
// the server answers again.
func (f *fixture) answer404(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = nil
	if name == "" {
		return
	}
	a := answers404[name]
	f.answer = func(req *http.Request) *http.Response {
		if !strings.Contains(req.URL.Path, "/secrets") {
			return nil
		}
		return &http.Response{
			StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {a.contentType}}, Request: req,
			Body: io.NopCloser(strings.NewReader(a.body)), ContentLength: int64(len(a.body)),
		}
	}
}

func TestAStatus404IsNotTheAbsenceOfAnObject(t *testing.T) {
	for name := range answers404 {
		t.Run(name, func(t *testing.T) {
			run(t, settings{}, func(f *fixture) {
				f.create(secret("a", "1"))
				f.answer404(name)
				var s corev1.Secret
				err := f.client.Get(f.ctx, key("a"), &s)
				f.Expect(err).To(MatchError(ContainSubstring(`it is not known which objects exist: watching Secret "shop/a"`)))
				f.Expect(apierrors.IsNotFound(err)).To(BeFalse(), "the first Get: %v", err)
				var all corev1.SecretList
				err = f.client.List(f.ctx, &all)
				f.Expect(err).To(MatchError(ContainSubstring("it is not known which objects exist")))
				f.Expect(apierrors.IsNotFound(err)).To(BeFalse(), "List: %v", err)
				f.answer404("")
				<-time.After(2 * time.Minute)
				f.Expect(f.text("a")).To(Equal("1"))
				f.Expect(f.text("b")).To(Equal("not found"), "the server's own list lacks it")
			})
		})
	}
}

// The watch of a cached object ends, and a proxy answers the next list.
func TestAStatus404IsNotTheDeletionOfACachedObject(t *testing.T) {
	for name := range answers404 {
		t.Run(name, func(t *testing.T) {
			run(t, settings{}, func(f *fixture) {
				f.create(secret("a", "1"))
				h := f.watch()
				f.Expect(f.text("a")).To(Equal("1"))
				f.Expect(h.take()).To(Equal([]string{"added a=1"}))
				f.answer404(name)
				ctx, cancel := context.WithTimeout(f.ctx, time.Hour)
				defer cancel()
				for f.text("a") == "1" && ctx.Err() == nil {
					<-time.After(time.Minute)
				}
				f.Expect(f.text("a")).To(ContainSubstring("it is not known which objects exist"))
				f.Expect(h.take()).To(BeEmpty())
				f.answer404("")
				<-time.After(10 * time.Minute)
				synctest.Wait()
				f.Expect(f.text("a")).To(Equal("1"))
				f.Expect(h.take()).To(BeEmpty())
			})
		})
	}
}
