package informer

import (
	"context"
	"errors"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
)

// A context that goes on would stay in memory as long as the informer runs.
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
			_, err := openInTime(t.Context(), func(ctx context.Context) (watch.Interface, error) {
				request = ctx
				return answer.watch, answer.err
			})
			g.Expect(err).To(HaveOccurred())
			g.Expect(request.Err()).To(HaveOccurred())
		})
	}
}

// The rest of an answer to a list may take any time, that of a call that opens a watch may not.
func TestADeadlineIsThatOfTheFirstByte(t *testing.T) {
	for rest, cause := range map[time.Duration]error{0: nil, time.Minute: errNoAnswer} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			ctx, d := withDeadline(t.Context(), time.Second, rest)
			defer d.end()
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

// So does that of one that is stopped, when it is closed.
func TestTheContextOfAWatchEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var request context.Context
		w, err := openInTime(t.Context(), func(ctx context.Context) (watch.Interface, error) {
			request = ctx
			return watch.NewFake(), nil
		})
		g.Expect(err).NotTo(HaveOccurred())
		<-time.After(24 * time.Hour)
		synctest.Wait()
		g.Expect(request.Err()).NotTo(HaveOccurred(), "it has been opened in time")
		w.Stop()
		g.Expect(request.Err()).To(HaveOccurred())
	})
}
