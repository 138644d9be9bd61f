package leader

import (
	"net/http"
	"slices"
	"strings"
)

// kind is what a request does, as far as a fence has to know.
type kind int

const (
	reads    kind = iota // passes
	writes               // passes within the trust window
	streams              // passes while the leadership lasts
	upgrades             // switches protocols: no fence can end it
)

// kindOf returns the kind of a request. base is the path of the API server, which stands before /api and /apis.
func kindOf(req *http.Request, base string) kind {
	t := targetOf(req.URL.Path, base)
	switch {
	case t.connects("exec", "attach", "portforward") || req.Header.Get("Upgrade") != "":
		return upgrades
	case t.verb == "proxy" || t.connects("proxy"):
		return streams
	case t.resource == "pods" && t.subresource == "log" && follows(req):
		return streams
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return reads
	}
	return writes
}

// follows reports whether a request for a log waits for more of it.
func follows(req *http.Request) bool {
	follow := req.URL.Query()["follow"]
	return len(follow) > 0 && follow[0] != "false" && follow[0] != "0"
}

// target is what a path of the API server names, by the server's own rules: see RequestInfo in
// https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request. It is zero for a path that is no resource's.
type target struct {
	verb                  string // of the old paths /api/v1/proxy/… and /api/v1/watch/…
	resource, subresource string
}

func targetOf(path, base string) target {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(path, base), "/"), "/")
	versioned := 2 // api, v1
	if parts[0] == "apis" {
		versioned = 3 // apis, apps, v1
	}
	if parts[0] != "api" && parts[0] != "apis" || len(parts) <= versioned {
		return target{}
	}
	parts = parts[versioned:]
	var t target
	if parts[0] == "proxy" || parts[0] == "watch" {
		t.verb, parts = parts[0], parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	if len(parts) > 0 {
		t.resource = parts[0]
	}
	if len(parts) > 2 && t.verb != "proxy" {
		t.subresource = parts[2]
	}
	return t
}

// connects reports whether the target is one of the given ways into a pod, a node, a service or the like.
func (t target) connects(ways ...string) bool {
	return t.subresource != "" && slices.Contains(ways, t.subresource)
}
