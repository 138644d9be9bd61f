// Package absenttest has answers that are not the API server's own: with status
// 404 that are not a proof, and with status 409 or 200.
package absenttest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Page is an answer that is not the API server's own answer about an object.
// For example, a proxy, a gateway or a webhook has sent it. Its status is 404
// unless Status is set.
type Page struct {
	Name, ContentType, Body string
	Status                  int
}

const jsonType = "application/json"

// Pages returns answers that do not prove that the object of the given resource
// and name does not exist.
func Pages(resource schema.GroupResource, name string) []Page {
	reason := func(group, kind, name string) string {
		return fmt.Sprintf(`"reason":"NotFound","details":{"group":%q,"kind":%q,"name":%q},"code":404}`, group, kind, name)
	}
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`
	page := func(name, contentType, body string) Page {
		return Page{Name: name, ContentType: contentType, Body: body}
	}
	return []Page{
		page("text of a server without the version", "text/plain; charset=utf-8", "404 page not found\n"),
		page("HTML", "text/html", "<html><body><h1>404 Not Found</h1></body></html>"),
		page("nothing", "", ""),
		page("nothing, said to be JSON", jsonType, ""),
		page("a gateway's JSON", jsonType, `{"message":"no Route matched with those values"}`),
		page("a gateway's kind", jsonType,
			`{"kind":"Error","apiVersion":"v1",`+reason(resource.Group, resource.Resource, name)),
		page("a Status without details", jsonType, status+`"reason":"NotFound","code":404}`),
		page("a Status with empty details", jsonType, status+`"reason":"NotFound","details":{},"code":404}`),
		page("a Status about another object", jsonType, status+reason(resource.Group, resource.Resource, "other")),
		page("a Status about the namespace", jsonType, status+reason("", "namespaces", "other")),
		page("a Status without a reason", jsonType,
			status+strings.Replace(reason(resource.Group, resource.Resource, name), `"reason":"NotFound",`, "", 1)),
		page("a Status of another code", jsonType,
			status+strings.Replace(reason(resource.Group, resource.Resource, name), "404", "503", 1)),
		page("the refusal of a webhook", jsonType,
			status+`"message":"admission webhook \"a.example.com\" denied the request: not found",`+
				reason(resource.Group, resource.Resource, name)),
	}
}

// Conflicts returns answers with status 409 that are not the API server's own.
// They do not mean that an object has changed.
func Conflicts() []Page {
	webhook := func(reason metav1.StatusReason) Page {
		return Page{"a webhook's " + string(reason), jsonType, `{"kind":"Status","apiVersion":"v1","metadata":{},` +
			`"status":"Failure","message":"admission webhook \"a.example.com\" denied the request: exists",` +
			`"reason":"` + string(reason) + `","details":{"name":"x"},"code":409}`, http.StatusConflict}
	}
	return []Page{
		webhook(metav1.StatusReasonConflict), webhook(metav1.StatusReasonAlreadyExists),
		{"HTML with status 409", "text/html", "<html><body><h1>409 Conflict</h1></body></html>", http.StatusConflict},
		{"nothing with status 409", "", "", http.StatusConflict},
		{"a gateway's JSON with status 409", jsonType, `{"message":"conflict"}`, http.StatusConflict},
	}
}

// Successes returns answers with status 200 that are not the API server's own.
// From most of them client-go makes an object without fields, or an empty list,
// and no error.
func Successes() []Page {
	return []Page{
		{"a gateway's {}", jsonType, `{}`, http.StatusOK},
		{"null", jsonType, `null`, http.StatusOK},
		{"a message", jsonType, `{"message":"back soon"}`, http.StatusOK},
		{"a Status of success", jsonType, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, http.StatusOK},
		{
			"a Status of failure with status 200", jsonType,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, http.StatusOK,
		},
		{
			"a Status of failure about another object with status 200", jsonType,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":"other"},"code":404}`,
			http.StatusOK,
		},
		{
			"an object of another kind", jsonType,
			`{"kind":"Endpoints","apiVersion":"v1","metadata":{"name":"x","namespace":"d"}}`, http.StatusOK,
		},
		{"a login page", "text/html", "<html>Please log in</html>", http.StatusOK},
		{"nothing with status 200", jsonType, "", http.StatusOK},
	}
}

// Response returns the page as the answer to req.
func (p Page) Response(req *http.Request) *http.Response {
	header := http.Header{}
	if p.ContentType != "" {
		header.Set("Content-Type", p.ContentType)
	}
	code := cmp.Or(p.Status, http.StatusNotFound)
	return &http.Response{
		Status: fmt.Sprint(code, " ", http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(p.Body)), Body: io.NopCloser(strings.NewReader(p.Body)), Request: req,
	}
}

// Config returns a configuration of clients whose requests are all answered
// with p.
func (p Page) Config() *rest.Config {
	return &rest.Config{Host: "http://proxy", Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		return p.Response(req), nil
	})}
}

// Intercept returns a configuration whose requests are answered with the page
// that pick returns. If pick returns nil, the server of config answers.
func Intercept(config *rest.Config, pick func(*http.Request) *Page) *rest.Config {
	intercepted := rest.CopyConfig(config)
	intercepted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if p := pick(req); p != nil {
				return p.Response(req), nil
			}
			return next.RoundTrip(req)
		})
	})
	return intercepted
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Err returns the error that client-go makes from the page for a GET of the
// object.
func (p Page) Err(ctx context.Context, resource schema.GroupVersionResource, name string) error {
	client, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		return err
	}
	_, err = client.Resource(resource).Namespace("d").Get(ctx, name, metav1.GetOptions{})
	return err
}
