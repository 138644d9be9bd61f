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

	"github.com/homeostat/homeostat/internal/answer"
)

// peek is how much of an answer is read to tell whose it is. What answers in the place
// of an API server sends less.
const peek = 64 << 10

// longestRetryAfter is how many seconds client-go waits, within a request, because an
// answer says so. An API server asks for half of it at most, and the page of a proxy
// under maintenance for hours.
const longestRetryAfter = 60

// about are the subresources whose answers are objects on every server; "" is the object
// itself, or a list.
var about = []string{"", "status", "scale", "eviction"}

// checked returns res, or an error if it reports success but cannot be the answer of an API
// server about an object or a list: it is a redirect, a page, or JSON without a kind,
// such as the {} of a gateway. client-go takes these for consent to a deletion, for an
// empty list, or for an object without fields.
func (o *observer) checked(req *http.Request, res *http.Response) (*http.Response, error) {
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > longestRetryAfter {
		res.Header.Set("Retry-After", strconv.Itoa(longestRetryAfter))
	}
	r, ok := o.aboutObjects(req)
	if !ok || res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusBadRequest {
		return res, nil
	}
	why := foreign(res, r.method == http.MethodDelete || r.subresource == "eviction")
	if why == "" {
		return res, nil
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	return nil, fmt.Errorf("the answer %d is not the API server's, something in between has sent it: %s",
		res.StatusCode, why)
}

// aboutObjects returns a request that every API server answers with an object or a list,
// and false for others. A watch is a stream of events, and connections to Pods have any
// content.
func (o *observer) aboutObjects(req *http.Request) (r request, ok bool) {
	r.method = req.Method
	switch req.Method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		ok = r.parsePath(strings.TrimPrefix(req.URL.Path, o.prefix)) && slices.Contains(about, r.subresource) &&
			!strings.Contains(req.URL.RawQuery, "watch=") && r.Resource.Resource != "watch" && r.Resource.Resource != "proxy"
	}
	return r, ok
}

// foreign returns why an answer cannot be an API server's, and "" if it can, which may be
// a Status for some requests.
func foreign(res *http.Response, mayBeStatus bool) string {
	contentType := res.Header.Get("Content-Type")
	switch {
	case res.StatusCode >= http.StatusMultipleChoices:
		return fmt.Sprintf("it redirects to %q", res.Header.Get("Location"))
	case res.Header.Get("Content-Encoding") != "": // the client unpacks it itself
		return ""
	case res.Body == nil || res.Body == http.NoBody:
		return "it is empty"
	case !answer.Readable(contentType):
		return fmt.Sprintf("its content type is %q", contentType)
	case !strings.HasPrefix(contentType, runtime.ContentTypeJSON):
		return "" // no page has another encoding
	}
	size := int64(peek)
	if res.ContentLength > 0 {
		size = min(peek, res.ContentLength+1) // one more, to see that it ends
	}
	head := make([]byte, size)
	n, err := io.ReadFull(res.Body, head)
	head = head[:n]
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && res.ContentLength <= int64(n)
	after := io.Reader(res.Body)
	if err != nil && !ended {
		after = broken{err}
	}
	res.Body = &putBack{Reader: io.MultiReader(bytes.NewReader(head), after), Closer: res.Body}
	if !ended {
		return "" // more than a page
	}
	return foreignJSON(head, mayBeStatus)
}

// foreignJSON is foreign for a whole body.
func foreignJSON(body []byte, mayBeStatus bool) string {
	var of struct {
		metav1.TypeMeta `json:",inline"`

		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(body, &of); err != nil {
		if strings.Contains(err.Error(), "exceeded max depth") {
			return "" // no page is nested like this, but a list of what the server has stored may be
		}
		return cmp.Or(err.Error(), "it is not JSON")
	}
	switch {
	case of.Kind == "" || of.APIVersion == "":
		return "it has no kind"
	case of.Kind != "Status" || of.APIVersion != "v1":
		return ""
	case !mayBeStatus || string(of.Status) != `"`+metav1.StatusSuccess+`"`:
		return "it is a Status of another kind of answer"
	}
	return ""
}
