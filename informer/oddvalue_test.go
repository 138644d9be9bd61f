package informer_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A field of an untyped object may be a list in one object, which cannot be the
// key of a map.
func TestAnIndexValueThatIsNoKeyOfAMapLeavesOneObjectOut(t *testing.T) {
	for how, plain := range map[string]bool{"streamed": false, "listed": true} {
		t.Run(how, func(t *testing.T) {
			withJobs(t, &apisim.Options{NoStreamingLists: plain}, map[string]any{"replicas": int64(13)}, func(x *jobs) {
				for n := range 100 { // many are indexed in another way
					x.create(fmt.Sprintf("z%d", n), map[string]any{"replicas": int64(2)})
				}
				in := informer.For(x.plain(), nil)
				index := informer.NewIndex(in, func(j *job) []any {
					if j.Spec.Replicas == 13 {
						return []any{[]string{"red", "blue"}}
					}
					return []any{j.Spec.Replicas}
				})
				x.runInformer(in)
				x.Expect(x.heard()).To(HaveLen(101))
				x.Expect(in.Status().Problems).To(ConsistOf(And(HaveField("Object", MatchRegexp(`^[jJ]ob "d/b"$`)),
					HaveField("Cause", "index panics"), HaveField("Reason", ContainSubstring("hash of unhashable type []string")))))
				x.Expect(x.proven("b")).To(BeFalse())
				x.Expect(index.Len(int32(1))).To(Equal(1))
				x.update("a", map[string]any{"replicas": int64(13)})
				x.Expect(index.Len(int32(1))).To(Equal(1), "the last good state stays, here as well")
				x.update("a", map[string]any{"replicas": int64(14)})
				x.update("b", good)
				x.Expect(in.Status().Problems).To(BeEmpty())
				x.Expect(index.Len(int32(14))).To(Equal(1))
				x.delete("a")
				x.Expect(index.Len(int32(14))).To(BeZero())
			})
		})
	}
}
