package requests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/proxied"
)

// complaining is a watch that reports an error when it is stopped, as
// client-go's watches may.
type complaining struct {
	events  chan watch.Event
	stopped *int
}

func (c complaining) ResultChan() <-chan watch.Event { return c.events }

func (c complaining) Stop() {
	*c.stopped++
	select {
	case c.events <- watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "read on closed response body"}}:
	case <-time.After(time.Second): // no reader
	}
}

// A cache between the server and the client ignores the query, and always
// answers with the first page.
func TestAPageThatLeadsToItselfEndsTheList(t *testing.T) {
	g, asked := NewWithT(t), 0
	_, err := EachObject(metav1.ListOptions{}, func(metav1.ListOptions) (runtime.Object, error) {
		if asked++; asked > 10 {
			return nil, errors.New("it never ends")
		}
		return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{Continue: "token"}}, nil
	}, func(runtime.Object) error { return nil })
	g.Expect(err).To(MatchError(ContainSubstring("this page again")))
	g.Expect(asked).To(Equal(2))
}

// A server or proxy may go on naming further pages.
func TestAListWithoutAnEndIsAnError(t *testing.T) {
	object := func(n int) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: fmt.Sprint(n)}}
	}
	for name, c := range map[string]struct {
		page  func(n int, page *metav1.PartialObjectMetadataList)
		asked int
		why   string
	}{
		"tokens in a circle": {func(n int, page *metav1.PartialObjectMetadataList) {
			page.Continue = fmt.Sprint("token", n%3)
			page.Items = append(page.Items, object(n))
		}, 4, "the next page of the list is an earlier page again"},
		"the same objects": {func(n int, page *metav1.PartialObjectMetadataList) {
			page.Items = append(page.Items, object(0), object(n))
		}, 2, `page 2 of the list begins with the object "d/0", as an earlier page did`},
		"no objects": {func(int, *metav1.PartialObjectMetadataList) {}, 101, "the list does not end: the last 101 pages have no objects"},
		"new objects": {func(n int, page *metav1.PartialObjectMetadataList) {
			page.Items = append(page.Items, object(n))
		}, 100_001, "the list does not end: it has more than 100000 pages"},
	} {
		t.Run(name, func(t *testing.T) {
			g, asked := NewWithT(t), 0
			_, err := EachObject(metav1.ListOptions{}, func(metav1.ListOptions) (runtime.Object, error) {
				if asked++; asked > 100_010 {
					return nil, errors.New("it never ends")
				}
				page := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{Continue: fmt.Sprint("token", asked)}}
				c.page(asked, page)
				return page, nil
			}, func(runtime.Object) error { return nil })
			g.Expect(err).To(MatchError(ContainSubstring(c.why)))
			g.Expect(asked).To(Equal(c.asked))
		})
	}
}

// A replica with one shard of many removes the objects of the others.
func TestFilteredPagesMayBeEmpty(t *testing.T) {
	g := NewWithT(t)
	pages := Pages{Filtered: true}
	continued := ""
	for n := range 300 {
		page := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{Continue: fmt.Sprint("token", n)}}
		g.Expect(pages.Next(continued, page)).To(Succeed())
		continued = page.Continue
	}
}

// The next list begins anew.
func TestPagesOfTheNextListAreNoRepetition(t *testing.T) {
	g := NewWithT(t)
	var pages Pages
	for range 3 {
		for _, token := range []string{"", "a", "b"} {
			page := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{
				Continue: map[string]string{"": "a", "a": "b"}[token],
			}, Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "of" + token}}}}
			g.Expect(pages.Next(token, page)).To(Succeed())
		}
		g.Expect(pages.Count()).To(Equal(3))
	}
}

func TestAWatchIsEndedWithoutAnError(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			inner := complaining{make(chan watch.Event), new(0)}
			e := NewEndable(inner, nil)
			var events []watch.Event
			done := make(chan struct{})
			go func() {
				defer close(done)
				for event := range e.ResultChan() {
					events = append(events, event)
				}
			}()
			inner.events <- watch.Event{Type: watch.Modified}
			synctest.Wait()
			e.Stop()
			<-done
			g.Expect(events).To(Equal([]watch.Event{{Type: watch.Modified}}))
			e.Stop() // by its reader
			g.Expect(*inner.stopped).To(Equal(1))
		})
	}
}

// A context that does not end would stay in memory as long as the informer
// runs.
func TestTheContextOfAWatchThatIsNotOpenedEnds(t *testing.T) {
	for name, answer := range map[string]struct {
		watch watch.Interface
		err   error
	}{
		"an error":           {err: errors.New("refused")},
		"a connection ended": {watch: watch.NewEmptyWatch()},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var request context.Context
			_, err := OpenInTime(t.Context(), func(ctx context.Context) (watch.Interface, error) {
				request = ctx
				return answer.watch, answer.err
			}, nil)
			g.Expect(err).To(HaveOccurred())
			g.Expect(request.Err()).To(HaveOccurred())
		})
	}
}

// The rest of an answer to a list may take any time. The rest of a call that
// opens a watch may not.
func TestADeadlineAppliesToTheFirstByte(t *testing.T) {
	for rest, cause := range map[time.Duration]error{0: nil, time.Minute: ErrNoAnswer} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			ctx, d := WithDeadline(t.Context(), time.Second, rest)
			defer d.End()
			httptrace.ContextClientTrace(ctx).GotFirstResponseByte()
			<-time.After(59 * time.Second)
			synctest.Wait()
			g.Expect(context.Cause(ctx)).NotTo(HaveOccurred())
			<-time.After(time.Hour)
			synctest.Wait()
			if cause == nil {
				g.Expect(context.Cause(ctx)).NotTo(HaveOccurred())
			} else {
				g.Expect(context.Cause(ctx)).To(MatchError(cause))
			}
		})
	}
}

// The context of a watch that is stopped ends when the watch is closed.
func TestTheContextOfAWatchEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var request context.Context
		w, err := OpenInTime(t.Context(), func(ctx context.Context) (watch.Interface, error) {
			request = ctx
			return watch.NewFake(), nil
		}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		<-time.After(24 * time.Hour)
		synctest.Wait()
		g.Expect(request.Err()).NotTo(HaveOccurred(), "it has been opened in time")
		w.Stop()
		g.Expect(request.Err()).To(HaveOccurred())
	})
}

// client-go repeats a request after the Retry-After of its answer. If the
// repetition has no answer, the server does not ask to wait any more.
func TestARepetitionWithoutAnAnswerIsNoRequestToWait(t *testing.T) {
	for name, c := range map[string]struct {
		answers bool
		want    error
		asked   bool
	}{
		"answered again": {true, ErrAsksToWait, true},
		"silent":         {false, ErrNoAnswer, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var asked atomic.Bool
				_, err := OpenInTime(t.Context(), func(ctx context.Context) (watch.Interface, error) {
					trace := httptrace.ContextClientTrace(ctx)
					trace.GetConn("")
					trace.GotFirstResponseByte()
					<-time.After(asksToWait - time.Second) // the Retry-After
					trace.GetConn("")
					if c.answers {
						trace.GotFirstResponseByte()
					}
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}, func() { asked.Store(true) })
				g.Expect(err).To(MatchError(c.want))
				g.Expect(errors.Is(err, ErrAsksToWait)).To(Equal(c.asked))
				g.Expect(asked.Load()).To(Equal(c.asked))
			})
		})
	}
}

// A proxy that refuses to connect to the server has not asked it for a
// permission, and net/http says only "Forbidden".
func TestARefusalOfAProxyIsAServerThatIsNotReached(t *testing.T) {
	g := NewWithT(t)
	way := proxied.Of(&rest.Config{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy:3128"})})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/pods", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = way.Wrap(refusing{}).RoundTrip(req) //nolint:bodyclose // there is none
	g.Expect(CauseOf(&url.Error{Op: "Get", URL: "https://server", Err: err})).To(Equal(CauseUnreachable))
	g.Expect(CauseOf(errors.New("Forbidden"))).To(Equal(CauseOther))
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("Forbidden") }
