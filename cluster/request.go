package cluster

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// request describes a request to the API server: the object that it is about,
// and what it does to this object. It is read from the method, the URL and the
// headers.
type request struct {
	ownwrites.Write

	method      string
	subresource string
}

// streams are the subresources that connect to a pod, a node or a service.
var streams = []string{"exec", "attach", "portforward", "proxy", "log"}

// parse returns the description of req. It reports false if req is not a write,
// or if a cache cannot show the write. For example, it reports false for a dry
// run, and for a command that is run in a Pod (exec).
func parse(req *http.Request, prefix string) (request, bool) {
	r := request{method: req.Method}
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	case http.MethodDelete:
		r.Delete = true
	default:
		return request{}, false
	}
	if !r.parsePath(strings.TrimPrefix(req.URL.Path, prefix)) || slices.Contains(streams, r.subresource) {
		return request{}, false
	}
	if r.subresource == "eviction" && r.method == http.MethodPost {
		r.Delete = true
	}
	if !r.Delete {
		r.Content = ownwrites.Content{
			Method: r.method, Subresource: r.subresource, Type: req.Header.Get("Content-Type"), Body: req.GetBody,
		}
	}
	return r, !r.isDryRun(req)
}

// parsePath reads the path /api/v1/… or /apis/group/version/…. It reports false
// for any other path.
func (r *request) parsePath(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		r.Resource.Group, parts = parts[1], parts[3:]
	default:
		return false
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource.Resource = parts[0]
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.subresource = parts[2]
	}
	return true
}

// isDryRun reports whether the request is a dry run. The server does not store
// a dry run.
func (r *request) isDryRun(req *http.Request) bool {
	if req.URL.Query().Get("dryRun") != "" {
		return true
	}
	if !r.Delete {
		return false
	}
	body := sent(req)
	if body == nil {
		return false
	}
	if r.subresource == "eviction" {
		var e policyv1.Eviction
		return body.Into(&e) == nil && e.DeleteOptions != nil && len(e.DeleteOptions.DryRun) > 0
	}
	var options metav1.DeleteOptions
	return body.Into(&options) == nil && len(options.DryRun) > 0
}

// sent returns the object in the body of a request, or nil.
func sent(req *http.Request) *answer.Object {
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close() // a copy
	data, err := readAll(body, req.ContentLength)
	if err != nil || len(data) == 0 {
		return nil
	}
	o, err := answer.Read(req.Header.Get("Content-Type"), data)
	if err != nil {
		return nil
	}
	return o
}

// readAll reads a body, but at most one byte more than answer.MaxBytes. length
// is -1 if it is not known.
func readAll(body io.Reader, length int64) ([]byte, error) {
	var b bytes.Buffer
	if length > 0 {
		b.Grow(int(min(length, 1<<20)) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(body, answer.MaxBytes+1))
	return b.Bytes(), err
}

// isNamespace reports whether the request is about a namespace itself.
func (r *request) isNamespace() bool {
	return r.Resource == schema.GroupResource{Resource: "namespaces"}
}
