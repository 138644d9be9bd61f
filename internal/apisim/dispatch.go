package apisim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// exchange is one call on one resource. Its methods need the server's lock.
type exchange struct {
	s *store
	t *table
	r *request

	loading bool // whether the call is Load, which skips the checks and the admission of a create
}

// serve executes one call other than a watch. The lock must be held.
func (s *Server) serve(r *request) (*output, error) {
	if isReview(r.Resource) {
		return s.review(r)
	}
	t, err := s.table(r)
	if err != nil {
		return nil, err
	}
	x := &exchange{s: &s.store, t: t, r: r}
	if r.Subresource != "" && r.Subresource != "status" {
		return subresource{x}.serve()
	}
	if r.Subresource == "status" && !t.res.Status {
		if !t.res.builtin.typed {
			return nil, apierrors.NewNotFound(t.res.groupResource(), r.Name)
		}
		return nil, notServed()
	}
	if err := checkWrite(r); err != nil {
		return nil, err
	}
	switch r.Verb {
	case "get":
		return x.get()
	case "list":
		return x.list()
	case "create":
		return x.create()
	case "update":
		return x.update()
	case "patch":
		return x.patch()
	case "delete":
		return x.remove()
	case "deletecollection":
		return x.removeAll()
	}
	return nil, apierrors.NewMethodNotSupported(t.res.groupResource(), r.Verb)
}

// table returns the table of a call's resource, after checking whether the
// caller may make the call.
func (s *Server) table(r *request) (*table, error) {
	t := s.tables[r.Resource]
	if t == nil {
		return nil, notServed()
	}
	if t.res.Namespaced && r.Namespace == "" && r.inURL != "" || !t.res.Namespaced && r.Namespace != "" {
		return nil, notServed()
	}
	if r.inURL == "" && (r.Verb == "update" || r.Verb == "patch" || r.Verb == "create" && t.res.Namespaced &&
		r.Namespace == "") {
		return nil, apierrors.NewMethodNotSupported(t.res.groupResource(), r.Verb)
	}
	if r.Client == admin {
		return t, nil
	}
	for _, deny := range s.forbidden {
		if err := deny(r.Call); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func notServed() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
}

func (x *exchange) get() (*output, error) {
	if rv := x.r.query.Get("resourceVersion"); rv != "" {
		wanted, err := strconv.ParseUint(rv, 10, 64)
		if err != nil {
			return nil, brokenVersion(rv)
		}
		if have := x.s.cached(x.t, x.r.Client); wanted > uint64(have) {
			return nil, tooLarge(int64(wanted), have)
		}
	}
	current := x.t.objects[x.r.key()]
	if version := x.s.cached(x.t, x.r.Client); x.r.query.Get("resourceVersion") == "0" && version < x.s.version {
		current = nil
		for _, o := range x.t.objectsAt(version) {
			if o.key == x.r.key() {
				current = o
			}
		}
	}
	if current == nil {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	return x.r.show(http.StatusOK, current)
}

// show encodes an object in the form that the caller asked for: whole, or
// metadata only.
func (r *request) show(code int, current *stored) (*output, error) {
	if !r.metadataOnly() {
		return &output{code: code, body: current.raw}, nil
	}
	body, err := partial(current)
	return &output{code: code, body: body}, err
}

func (r *request) metadataOnly() bool {
	return strings.Contains(r.accept, "json;as=PartialObjectMetadata")
}

func partial(have *stored) ([]byte, error) {
	return json.Marshal(object{
		"kind": "PartialObjectMetadata", "apiVersion": metav1.SchemeGroupVersion.String(), "metadata": have.meta(),
	})
}

// decodeBody returns the object that a caller sent, or an error if the object
// does not fit the URL.
func decodeBody(t *table, r *request) (object, error) {
	obj, err := decode(r.body)
	if err != nil || obj == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body of the request is not an object: %v", err))
	}
	if _, isObject := obj["metadata"].(object); !isObject && obj["metadata"] != nil {
		return nil, apierrors.NewBadRequest("json: cannot unmarshal metadata into an object")
	}
	if text(obj, "kind") == "" && !t.res.builtin.typed {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): "+
			"Object 'Kind' is missing"+
			" in '%s' (%s)", t.res.Kind, r.body, r.body))
	}
	if kind := text(obj, "kind"); kind != "" && kind != t.res.Kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: "+
			"no kind %q is registered",
			kind, t.res.Version, t.res.Kind, kind))
	}
	if v := text(obj, "apiVersion"); v != "" && v != t.res.apiVersion() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match "+
			"the expected API version (%s)",
			v, t.res.apiVersion()))
	}
	m := metaOf(obj)
	if r.Verb == "update" && r.Subresource == "" && text(m, "name") == "" {
		return nil, apierrors.NewBadRequest("name must be provided")
	}
	if r.Verb != "create" && text(m, "name") != "" && text(m, "name") != r.Name {
		return nil, wrongName(text(m, "name"), r.Name)
	}
	if ns := text(m, "namespace"); ns != "" && ns != r.Namespace {
		return nil, wrongNamespace()
	}
	return obj, nil
}

// checkSchema prunes and defaults an object of a custom resource with a schema,
// and looks for unknown fields.
func (x *exchange) checkSchema(obj object, raw []byte) error {
	var unknown []string
	if x.t.res.Schema != nil {
		unknown = x.t.res.Schema.Decode(obj)
	}
	return x.checkFields(raw, unknown)
}

func wrongNamespace() error {
	return apierrors.NewBadRequest("the namespace of the provided object does not match " +
		"the namespace sent on the request")
}

func wrongName(name, url string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match "+
		"the name on the URL (%s)", name, url))
}
