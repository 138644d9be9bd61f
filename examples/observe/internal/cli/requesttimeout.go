package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// limited returns a transport wrapper that gives every request a deadline for
// reading its whole answer. Watches have no deadline, because they are meant to
// last.
func limited(timeout time.Duration) func(http.RoundTripper) http.RoundTripper {
	errTimeout := fmt.Errorf("the server did not answer within --request-timeout=%v", timeout)
	return func(base http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if watch := request.URL.Query().Get("watch"); watch == "true" || watch == "1" {
				return base.RoundTrip(request)
			}
			ctx, cancel := context.WithTimeoutCause(request.Context(), timeout, errTimeout)
			answer, err := base.RoundTrip(request.WithContext(ctx))
			if err != nil {
				if errors.Is(context.Cause(ctx), errTimeout) {
					err = errTimeout
				}
				cancel()
				return nil, err
			}
			answer.Body = &limitedBody{answer.Body, cancel}
			return answer, nil
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A limitedBody is the body of an answer. Closing it releases the timer of the
// request's deadline.
type limitedBody struct {
	io.ReadCloser

	end func()
}

func (b *limitedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
