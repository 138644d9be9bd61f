package suspect_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/suspect"
)

func TestTheSenderIsAGuess(t *testing.T) {
	g, cause := NewWithT(t), errors.New("no such page")
	err := suspect.Answerf("the answer is about %q, not %q: %w", "b", "a", cause)
	g.Expect(err).To(MatchError(
		`the answer is about "b", not "a": no such page: perhaps a proxy or gateway has sent it`))
	g.Expect(err).To(MatchError(cause))
}

func TestAnAnswerIsDescribedByWhatIsKnownOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		code                    int
		contentType, body, want string
	}{
		"a page": {502, "text/html; charset=utf-8", "<html>\r\n<head>\t<title>Bad", "status 502, content type " +
			`"text/html; charset=utf-8", body "<html> <head> <title>Bad"`},
		"a long page": {
			200, "text/plain", strings.Repeat("ä", 300),
			`status 200, content type "text/plain", body "` + strings.Repeat("ä", 40) + `"`,
		},
		"a cut rune": {
			200, "text/plain", "x" + strings.Repeat("ä", 300),
			`status 200, content type "text/plain", body "x` + strings.Repeat("ä", 39) + `"`,
		},
		"no text": {200, "text/html", " \n ", `status 200, content type "text/html"`},
		"an object": {
			200, "application/json", `{"kind":"Secret","data":{"k":"c2VjcmV0"}}`,
			`status 200, content type "application/json"`,
		},
		"no type":      {204, "", "secret", "status 204"},
		"another type": {200, "not a type", "secret", `status 200, content type "not a type"`},
	} {
		t.Run(name, func(t *testing.T) {
			res := &http.Response{StatusCode: c.code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))}
			if c.contentType != "" {
				res.Header.Set("Content-Type", c.contentType)
			}
			NewWithT(t).Expect(suspect.Describe(res)).To(Equal(c.want))
		})
	}
}

func TestAnAnswerWithoutABodyIsDescribed(t *testing.T) {
	NewWithT(t).Expect(suspect.Describe(&http.Response{StatusCode: 200})).To(Equal("status 200"))
}

// Describe is called inside of a request, which would wait with it.
func TestAnAnswerThatDoesNotEndIsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, page := io.Pipe()
		defer body.Close()
		go func() {
			_, _ = io.WriteString(page, "<html>") // the rest never comes
		}()
		res := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/html"}}, Body: body}
		NewWithT(t).Expect(suspect.Describe(res)).To(Equal(`status 200, content type "text/html", body "<html>"`))
	})
}
