package apisim

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Call is one API call: the client, the verb as RBAC names it, and the object.
type Call struct { //nolint:recvcheck // the methods that fill it in need a pointer; a Call that is complete is a value
	Client      string
	Incarnation int
	Verb        string // get, list, watch, create, update, patch, delete or deletecollection
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	// Name is the generateName followed by * for a create without a name. For a
	// list or a watch it is the name that the field selector asks for, if any.
	Name string
}

// Write reports whether the call may change state. It returns false for reads
// and for reviews, such as a TokenReview. It returns true for a dry run.
func (c Call) Write() bool {
	return c.Verb != "get" && c.Verb != "list" && c.Verb != "watch" && !isReview(c.Resource)
}

func (c Call) String() string {
	resource := c.Resource.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	name := c.Name
	if c.Namespace != "" {
		name = c.Namespace + "/" + name
	}
	return fmt.Sprintf("%s#%d %s %s %s", c.Client, c.Incarnation, c.Verb, resource, name)
}

// request is a call together with the contents of its HTTP request.
type request struct {
	Call
	query     url.Values
	body      []byte
	mediaType string
	accept    string
	inURL     string   // the object's name in the URL
	warnings  []string // warnings that are sent to the caller with the answer
}

var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
	http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// ParseCall derives the call from the method, path and query of a request. The
// client and the name of a created object are empty. It returns false if the
// method and path do not belong to an API call.
func ParseCall(req *http.Request) (Call, bool) {
	var c Call
	query := req.URL.Query()
	ok := c.parsePath(req.Method, req.URL.Path, query)
	c.selectName(query)
	return c, ok
}

// selectName sets the name of a list or a watch to the name in its field
// selector, because authorizers treat it as the name of the call.
func (c *Call) selectName(query url.Values) {
	if c.Verb != "list" && c.Verb != "watch" {
		return
	}
	if selector, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil {
		c.Name, _ = selector.RequiresExactMatch("metadata.name")
	}
}

// parsePath reads a path such as /api/v1/namespaces/n/pods/p/status. It returns
// false if the path or the method is not one of a resource.
func (c *Call) parsePath(method, path string, query url.Values) bool {
	p := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case p[0] == "api" && len(p) >= 3:
		c.Resource.Version, p = p[1], p[2:]
	case p[0] == "apis" && len(p) >= 4:
		c.Resource.Group, c.Resource.Version, p = p[1], p[2], p[3:]
	default:
		return false
	}
	// /namespaces/n/status and /finalize belong to the namespace itself.
	own := len(p) == 3 && slices.Contains([]string{"status", "finalize"}, p[2])
	if p[0] == "namespaces" && len(p) > 2 && !own {
		c.Namespace, p = p[1], p[2:]
	}
	c.Resource.Resource = p[0]
	if len(p) > 1 {
		c.Name = p[1]
	}
	if len(p) > 2 {
		c.Subresource = strings.Join(p[2:], "/")
	}
	c.Verb = verbs[method]
	c.collectionVerb(query)
	return c.Verb != ""
}

func (c *Call) collectionVerb(query url.Values) {
	if c.Name != "" {
		return
	}
	switch {
	case c.Verb == "get" && isTrue(query.Get("watch")):
		c.Verb = "watch"
	case c.Verb == "get":
		c.Verb = "list"
	case c.Verb == "delete":
		c.Verb = "deletecollection"
	}
}

// isTrue reports whether an option is on. Any value except "", "0" and "false"
// turns it on.
func isTrue(s string) bool { return s != "" && s != "0" && !strings.EqualFold(s, "false") }

// setName keeps the name in the URL in inURL. It then sets the name of a list
// or a watch to the name in its field selector, and the name of a create to the
// name in its body, or to its generateName followed by *.
func (r *request) setName() {
	r.inURL = r.Name
	r.selectName(r.query)
	if r.Verb != "create" || r.Name != "" {
		return
	}
	obj, err := decode(r.body)
	if err != nil || obj == nil {
		return
	}
	m := metaOf(obj)
	if r.Name = text(m, "name"); r.Name == "" {
		r.Name = text(m, "generateName") + "*"
	}
}

func (r *request) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// detail returns the selectors and the body of a call. They distinguish it from
// other calls of the same name.
func (r *request) detail() string {
	return r.query.Get("labelSelector") + "\n" + r.query.Get("fieldSelector") + "\n" + string(r.body)
}

func (r *request) dryRun() bool { return slices.Contains(r.query["dryRun"], "All") }
