package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/suspect"
)

// peekBytes bounds how much of an answer is read to find out whether it is the
// API server's. Proxies and gateways that answer in place of an API server send
// less.
const peekBytes = 64 << 10

// longestRetryAfter is the longest time in seconds for which an answer may make
// client-go wait within a request. The flow control of an API server asks for
// at most 32 seconds. The maintenance page of a proxy may ask for hours.
const longestRetryAfter = 60

// objectAnswers are the subresources that every server answers with an object.
// "" stands for the object itself, or a list.
var objectAnswers = []string{"", "status", "scale", "eviction"}

// verify returns res, or an error if res cannot be an API server's answer to a
// request about an object or a list. For example, res is a redirect, comes from
// a cache, or contains JSON without a kind, such as the {} of a gateway.
// client-go would take such an answer for a successful deletion, an empty list,
// or an object without fields. verify also limits the header Retry-After of
// every answer to longestRetryAfter.
func (o *observer) verify(req *http.Request, res *http.Response) (*http.Response, error) {
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > longestRetryAfter {
		res.Header.Set("Retry-After", strconv.Itoa(longestRetryAfter))
	}
	r, ok := o.aboutObjects(req)
	if !ok || res.StatusCode < http.StatusOK {
		return res, nil
	}
	reason, deletion := "", answer.Deletion{}
	switch age, _ := strconv.Atoi(res.Header.Get("Age")); {
	case age > 0:
		reason = fmt.Sprintf("it is from a cache, and %d seconds old", age)
	case res.StatusCode >= http.StatusBadRequest:
		if reason = contradiction(res); reason == "" {
			return res, nil
		}
	default:
		reason = r.foreign(res)
		if reason == "" && r.method == http.MethodDelete && r.Name != "" {
			reason, deletion = r.deletion(req, res)
		}
	}
	if reason == "" {
		answer.WitnessOf(req.Context()).Saw(deletion)
		return res, nil
	}
	err := suspect.Answerf("the answer is not from the API server: %s (%s)", reason, suspect.Describe(res))
	if res.Body != nil {
		_ = res.Body.Close()
	}
	return nil, err
}

// aboutObjects parses req, and reports whether every API server answers it with
// an object or a list. It reports false for other requests, such as a watch.
func (o *observer) aboutObjects(req *http.Request) (r request, ok bool) {
	r, ok = o.finite(req)
	return r, ok && slices.Contains(objectAnswers, r.subresource)
}

// finite parses req, and reports whether it is about a resource and its answer
// ends by itself. It reports false for a watch, which is a stream of events,
// and for the connections in streams, such as the log of a Pod or the proxy of
// a Service, which may have any content.
func (o *observer) finite(req *http.Request) (r request, ok bool) {
	r.method = req.Method
	switch req.Method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		ok = r.parsePath(strings.TrimPrefix(req.URL.Path, o.prefix)) && !slices.Contains(streams, r.subresource) &&
			!strings.Contains(req.URL.RawQuery, "watch=") && r.Resource.Resource != "watch" && r.Resource.Resource != "proxy"
	}
	return r, ok
}

// foreign returns why the answer to r cannot be an API server's, or "" if it
// can be. For example, an API server answers a read with status 200, and a
// proxy that sends a part of an answer, or a changed one, uses another status.
func (r *request) foreign(res *http.Response) string {
	contentType := res.Header.Get("Content-Type")
	switch {
	case res.StatusCode >= http.StatusMultipleChoices:
		return fmt.Sprintf("it redirects to %q", res.Header.Get("Location"))
	case res.StatusCode > http.StatusAccepted, res.StatusCode != http.StatusOK && r.method == http.MethodGet:
		return "API servers do not answer with this status"
	case res.Header.Get("Content-Encoding") != "": // the client unpacks it itself
		return ""
	case res.Body == nil || res.Body == http.NoBody:
		return "it is empty"
	case !answer.Readable(contentType):
		return "it is not JSON, protobuf or CBOR"
	case !strings.HasPrefix(contentType, runtime.ContentTypeJSON):
		return "" // pages are not encoded as protobuf or CBOR
	}
	size := int64(peekBytes)
	if res.ContentLength > 0 {
		size = min(peekBytes, res.ContentLength+1) // one byte more, to see that the body ends
	}
	head := make([]byte, size)
	n, err := io.ReadFull(res.Body, head)
	head = head[:n]
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && res.ContentLength <= int64(n)
	unread := io.Reader(res.Body)
	if err != nil && !ended {
		unread = broken{err}
	}
	res.Body = &putBack{Reader: io.MultiReader(bytes.NewReader(head), unread), Closer: res.Body}
	if !ended {
		return "" // longer than a page
	}
	return r.foreignJSON(head)
}

// foreignJSON returns the reason why a complete JSON body is not the API
// server's own answer, or "" if it may be.
func (r *request) foreignJSON(body []byte) string {
	var object struct {
		metav1.TypeMeta `json:",inline"`

		Status json.RawMessage `json:"status"`
		Items  json.RawMessage `json:"items"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &object); err != nil {
		if strings.Contains(err.Error(), "exceeded max depth") {
			return "" // stored objects may be nested this deeply, pages are not
		}
		return cmp.Or(err.Error(), "it is not JSON")
	}
	mayBeStatus := r.method == http.MethodDelete || r.subresource == "eviction"
	switch {
	case object.Kind == "" || object.APIVersion == "":
		return "it has no kind"
	case r.method == http.MethodGet && r.Name == "" && strings.HasSuffix(object.Kind, "List") && object.Items == nil:
		return "it is a list without items"
	case object.Kind != "Status" || object.APIVersion != "v1":
		return ""
	case !mayBeStatus || string(object.Status) != `"`+metav1.StatusSuccess+`"`:
		return "it is a Status, not an object"
	}
	return ""
}
