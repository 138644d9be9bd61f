package informer

import (
	"context"
	"errors"
	"testing"

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
