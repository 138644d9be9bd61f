package wire_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/wire"
)

// watching answers each request with the same watch.
type watching struct{ mediaType string }

func (w watching) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := protobuf(modified(pod("1", "x", "Running"), pod("2", "x", "Pending"))...)
	header := http.Header{"Content-Type": {w.mediaType}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: reader(sent), Request: r}, nil
}

// offered sends a request with an offer, and returns its answer.
func offered(g *WithT, ctx context.Context, mediaType, url string) *http.Response {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	answer, err := wire.Receiver(watching{mediaType}).RoundTrip(request)
	g.Expect(err).NotTo(HaveOccurred())
	return answer
}

// read returns how many objects of a body are placeholders, of how many.
func read(g *WithT, specs *wire.Specs, body io.ReadCloser) (placeholders, all int) {
	defer body.Close()
	decoder := theirs(runtime.ContentTypeProtobuf, body)
	for {
		_, o, err := decoder.Decode()
		if err != nil {
			return placeholders, all
		}
		all++
		_, spec, err := specs.Take(o.(wire.Object))
		g.Expect(err).NotTo(HaveOccurred())
		if spec.Fingerprint != (wire.Fingerprint{}) {
			placeholders++
		}
	}
}

func TestAnOfferIsForTheOnlyWatchThatFindsItOnceItIsAccepted(t *testing.T) {
	const watch, list = "http://wired/api/v1/pods?watch=true", "http://wired/api/v1/pods"
	const unseen = "no transport wrapped with clientgo.ReuseSpecs has sent the request of the watch"
	for _, c := range []struct {
		name         string
		mediaType    string
		urls         []string
		accept       bool
		placeholders int
		why          string
	}{
		{"accepted", runtime.ContentTypeProtobuf + ";stream=watch", []string{watch}, true, 2, ""},
		{
			"not accepted", runtime.ContentTypeProtobuf + ";stream=watch",
			[]string{watch},
			false, 0,
			"the ListerWatcher returns a <nil>, which may need whole objects",
		},
		{
			"two watches", runtime.ContentTypeProtobuf,
			[]string{watch, watch},
			true, 0,
			"the ListerWatcher opens several watches at once",
		},
		{"JSON", runtime.ContentTypeJSON, []string{watch}, true, 0, `the server sends "application/json"`},
		{"a list", runtime.ContentTypeProtobuf, []string{list}, true, 0, unseen},
		{"no request", "", nil, true, 0, unseen},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			kind, _ := wire.KindOf(podType)
			specs := wire.NewSpecs(kind, func(types.NamespacedName) wire.State { return wire.State{} })
			ctx, offer := wire.NewOffer(t.Context(), specs)
			var answers []*http.Response
			for _, url := range c.urls {
				answers = append(answers, offered(g, ctx, c.mediaType, url))
			}
			if c.accept {
				offer.Accept()
			} else {
				g.Expect(offer.Examine(nil)).To(MatchError(c.why))
			}
			g.Expect(specs.Reason()).To(Equal(c.why))
			for _, answer := range answers {
				placeholders, all := read(g, specs, answer.Body)
				g.Expect([]int{placeholders, all}).To(Equal([]int{c.placeholders, 2}))
			}
			// A request after that is not the watch that was offered.
			if c.placeholders > 0 {
				late := offered(g, ctx, c.mediaType, watch)
				placeholders, all := read(g, specs, late.Body)
				g.Expect([]int{placeholders, all}).To(Equal([]int{0, 2}))
			}
		})
	}
}

func TestARequestWithoutAnOfferPassesUnchanged(t *testing.T) {
	g := NewWithT(t)
	answer := offered(g, t.Context(), runtime.ContentTypeProtobuf, "http://wired/api/v1/pods?watch=true")
	got, err := io.ReadAll(answer.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(protobuf(modified(pod("1", "x", "Running"), pod("2", "x", "Pending"))...)))
}

func TestAReceiverShowsTheTransportThatItWraps(t *testing.T) {
	g := NewWithT(t)
	wrapped, ok := wire.Receiver(watching{}).(interface{ WrappedRoundTripper() http.RoundTripper })
	g.Expect(ok).To(BeTrue())
	g.Expect(wrapped.WrappedRoundTripper()).To(Equal(watching{}))
	none := wire.Receiver(nil).(interface{ WrappedRoundTripper() http.RoundTripper })
	g.Expect(none.WrappedRoundTripper()).To(BeIdenticalTo(http.DefaultTransport))
	_, err := rest.HTTPClientFor(&rest.Config{WrapTransport: wire.Receiver})
	g.Expect(err).NotTo(HaveOccurred())
}
