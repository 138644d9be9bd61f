package apisim

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// clockTime matches the name of a field and the seconds of its value, if the
// name is one that times have in the Kubernetes API: it ends with Time, time,
// Timestamp or At, such as finishedAt, or is timeAdded. It also matches such a
// field in an operation of a JSON patch.
var clockTime = regexp.MustCompile(
	`(?:[tT]ime(?:stamp)?|[a-z]At|timeAdded)"(?:,"value")?:\s?"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)`)

const seconds = "2006-01-02T15:04:05"

// shift adds offset to the timestamps in a body. It changes no other byte.
func shift(body []byte, offset time.Duration) []byte {
	if offset == 0 {
		return body
	}
	return clockTime.ReplaceAllFunc(body, func(match []byte) []byte {
		start := len(match) - len(seconds)
		t, err := time.Parse(seconds, string(match[start:]))
		if err != nil || t.Year() < 2 { // the zero time is not a time of a clock
			return match
		}
		return t.Add(offset).AppendFormat(bytes.Clone(match[:start]), seconds)
	})
}

// skew returns how far the server's clock is ahead of a client's clock.
func (t *transport) skew() time.Duration {
	if t.server.opts.Skew == nil || t.client == admin {
		return 0
	}
	return t.server.opts.Skew(t.client)
}

// OnClock returns objects as the named client reads them. If the client's clock
// differs from the server's clock, the timestamps are shifted.
func (s *Server) OnClock(client string, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if s.opts.Skew == nil || s.opts.Skew(client) == 0 {
		return objects, nil
	}
	shown := make([]*unstructured.Unstructured, len(objects))
	for n, o := range objects {
		body, err := o.MarshalJSON()
		if err != nil {
			return nil, err
		}
		shown[n] = &unstructured.Unstructured{}
		if err := shown[n].UnmarshalJSON(shift(body, s.opts.Skew(client))); err != nil {
			return nil, err
		}
	}
	return shown, nil
}

// onClock shows a response to a client whose clock differs from the server's
// clock: every timestamp in the response is shifted by the difference,
// including the header Date.
func onClock(resp *http.Response, skew time.Duration) {
	resp.Header.Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
	if skew != 0 {
		resp.Body = &shiftedBody{body: resp.Body, offset: skew}
		resp.ContentLength = -1
	}
}

// shiftedBody is a response body in which all timestamps are shifted by offset.
// It processes whole lines: each event of a watch ends with a newline, so no
// timestamp spans two lines.
type shiftedBody struct {
	body   io.ReadCloser
	offset time.Duration
	ready  []byte // complete lines, which may be read
	rest   []byte // the beginning of a line whose end has not been received yet
	err    error
}

func (b *shiftedBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 && b.err == nil {
		chunk := make([]byte, 32<<10)
		var n int
		n, b.err = b.body.Read(chunk)
		b.rest = append(b.rest, chunk[:n]...)
		end := bytes.LastIndexByte(b.rest, '\n') + 1
		if b.err != nil {
			end = len(b.rest)
		}
		b.ready, b.rest = shift(b.rest[:end], b.offset), bytes.Clone(b.rest[end:])
	}
	if len(b.ready) == 0 {
		return 0, b.err
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

func (b *shiftedBody) Close() error { return b.body.Close() }
