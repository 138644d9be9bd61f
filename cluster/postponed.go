package cluster

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// briefRetryAfter is the longest time in seconds for which client-go may
	// wait within a request of a reconcile. The flow control of an API server
	// asks for this time at first, and for more if it has to refuse many
	// requests.
	briefRetryAfter = 1

	// pageTextBytes bounds how much text of a page the error contains.
	// client-go has the same limit.
	pageTextBytes = 2048
)

// handOver changes an answer that asks a reconcile to wait. client-go then
// returns it as an error at once. The error contains the delay, and package
// reconcile retries the key after that delay. Without handOver, client-go would
// wait within the request and repeat it up to ten times. The worker would wait
// with it, and in the end the error would say that the reconcile's time is
// over, and not why the server asked to wait.
//
// client-go waits if it finds the header Retry-After. So handOver moves the
// delay from the header to the body.
func (o *observer) handOver(req *http.Request, res *http.Response) {
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || seconds <= briefRetryAfter || res.Header.Get("Content-Encoding") != "" {
		return
	}
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode < http.StatusInternalServerError {
		return
	}
	r, ok := o.finite(req)
	if !ok {
		return
	}
	res.Header.Del("Retry-After")
	var status metav1.Status
	if object := read(res); object != nil && object.Status != nil {
		status = *object.Status
	} else {
		status = r.pageStatus(res)
	}
	if status.Details == nil {
		status.Details = &metav1.StatusDetails{}
	}
	if status.Details.RetryAfterSeconds > 0 {
		return
	}
	status.Details.RetryAfterSeconds = int32(seconds) //nolint:gosec // at most longestRetryAfter
	setBody(res, status)
}

// pageStatus returns the Status that client-go would make of an answer that is
// not a Status, such as the page of a proxy or a line of text.
func (r *request) pageStatus(res *http.Response) metav1.Status {
	text := "unknown"
	if contentType := res.Header.Get("Content-Type"); res.Body != nil &&
		(contentType == "" || strings.HasPrefix(contentType, "text/")) {
		page, _ := io.ReadAll(io.LimitReader(res.Body, pageTextBytes)) // what can be read is said
		text = strings.TrimSpace(string(page))
	}
	verb := strings.ToLower(r.method)
	status := apierrors.NewGenericServerResponse(res.StatusCode, verb, r.Resource, r.Name, text, 0, true)
	status.ErrStatus.APIVersion, status.ErrStatus.Kind = "v1", "Status"
	return status.ErrStatus
}

// setBody replaces the body of an answer with a Status.
func setBody(res *http.Response, status metav1.Status) {
	body, err := json.Marshal(status)
	if err != nil {
		return // a Status can always be encoded
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Set("Content-Type", runtime.ContentTypeJSON)
	res.Header.Set("Content-Length", strconv.Itoa(len(body)))
}
