package informer_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// nested replaces strings such as "nested 123" in answers by that number of
// nested lists.
type nested struct {
	io.ReadCloser
	rest []byte
}

var nestable = regexp.MustCompile(`"nested \d+"`)

func (n *nested) Read(p []byte) (int, error) {
	var err error
	if len(n.rest) == 0 {
		chunk := make([]byte, 1<<20)
		var read int
		read, err = n.ReadCloser.Read(chunk)
		n.rest = nestable.ReplaceAllFunc(chunk[:read], func(value []byte) []byte {
			levels, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(string(value), `"nested `), `"`))
			return []byte(strings.Repeat("[", levels) + strings.Repeat("]", levels))
		})
	}
	copied := copy(p, n.rest)
	if n.rest = n.rest[copied:]; len(n.rest) > 0 {
		err = nil
	}
	return copied, err
}

// nesting returns a config whose answers are nested.
func (x *jobs) nesting() *rest.Config {
	config := x.sim.Config("nested")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transportFunc(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil {
				answer.Body, answer.ContentLength = &nested{ReadCloser: answer.Body}, -1
				answer.Header.Del("Content-Length")
			}
			return answer, err
		})
	})
	return config
}

// cachedJobs has the methods of an informer of any type that the tests below
// need.
type cachedJobs interface {
	WaitForSync(ctx context.Context) error
	Run(ctx context.Context) error
	Status() informer.Status
	Unreadable(key types.NamespacedName) error
}

// nestedCaches are informers with each kind of client.
var nestedCaches = map[string]func(x *jobs, o *informer.Options) cachedJobs{
	"of package cluster": func(x *jobs, o *informer.Options) cachedJobs { return informer.For(x.client.In(""), o) },
	"gentype":            func(x *jobs, o *informer.Options) cachedJobs { return informer.For(x.plain(), o) },
	"dynamic": func(x *jobs, o *informer.Options) cachedJobs {
		return informer.For(informer.Untyped(dynamic.NewForConfigOrDie(x.nesting()).Resource(ofJobs)), o)
	},
	"dynamic of a namespace": func(x *jobs, o *informer.Options) cachedJobs {
		return informer.For(informer.Untyped(dynamic.NewForConfigOrDie(x.nesting()).Resource(ofJobs).Namespace("d")), o)
	},
	"metadata": func(x *jobs, o *informer.Options) cachedJobs {
		return informer.For(informer.Untyped(metadata.NewForConfigOrDie(x.nesting()).Resource(ofJobs)), o)
	},
}

// withNested calls f with each of the informers, and the ways in which it may
// list.
func withNested(t *testing.T, spec map[string]any, f func(x *jobs, in cachedJobs)) {
	t.Helper()
	for name, of := range nestedCaches {
		for how, plain := range map[string]bool{"streamed": false, "listed": true} {
			t.Run(name+" "+how, func(t *testing.T) {
				withJobs(t, &apisim.Options{NoStreamingLists: plain}, spec, func(x *jobs) {
					reached, err := cluster.New(x.nesting(), nil)
					x.Expect(err).NotTo(HaveOccurred())
					x.client, err = cluster.NewKind[*job, *jobList](reached, ofJobs, addJobs)
					x.Expect(err).NotTo(HaveOccurred())
					x.create("c", good)
					in := of(x, &informer.Options{PageSize: 2, BackoffBase: time.Second})
					x.t.Cleanup(running(x.logs.important(x.t.Context()), in))
					limited, cancel := context.WithTimeout(x.t.Context(), time.Minute)
					defer cancel()
					x.Expect(in.WaitForSync(limited)).To(Succeed(), "%s", in.Status().Reason)
					f(x, in)
				})
			})
		}
	}
}

// JSON decoders accept 10,000 levels. A list adds two levels to an object, and
// an event adds one.
func TestANestedObjectIsReadAsDeepAsItGoes(t *testing.T) {
	deep := map[string]any{"nested": "nested 9998"}
	withNested(t, deep, func(x *jobs, in cachedJobs) {
		x.Expect(in.Status().Objects).To(Equal(3))
		x.Expect(in.Status().Problems).To(BeEmpty())
		x.create("e", deep)
		x.update("a", deep)
		x.create("f", good)
		pass(10 * time.Second)
		x.Expect(in.Status().Objects).To(Equal(5))
		x.Expect(in.Status().Problems).To(BeEmpty())
		x.Expect(in.Status().Lists).To(BeNumerically("<=", 2))
	})
}

func TestAnObjectThatIsNestedTooDeeplyIsLeftOutAndNamed(t *testing.T) {
	tooDeep := map[string]any{"nested": "nested 10001"}
	withNested(t, tooDeep, func(x *jobs, in cachedJobs) {
		if in.Status().Objects == 3 {
			return // this cache has only metadata
		}
		left := And(HaveField("Object", MatchRegexp(`^[jJ]ob "d/b"$`)), HaveField("Cause", "not decodable"),
			HaveField("Reason", ContainSubstring("nested more than 10000 levels deep")))
		x.Expect(in.Status().Objects).To(Equal(2))
		x.Expect(in.Status().Problems).To(ConsistOf(left))
		x.Expect(in.Unreadable(keyOfJob("b"))).To(MatchError(ContainSubstring(`"d/b"`)))
		x.create("e", tooDeep)
		x.update("a", tooDeep)
		x.create("f", good)
		pass(10 * time.Second)
		x.Expect(in.Status().Objects).To(Equal(3))
		x.Expect(in.Status().Problems).To(ConsistOf(HaveField("Object", MatchRegexp(`^[jJ]ob "d/a"$`)), left, HaveField("Object", MatchRegexp(`^[jJ]ob "d/e"$`))))
		x.update("b", good)
		x.delete("e")
		x.update("a", good)
		pass(10 * time.Second)
		x.Expect(in.Status().Objects).To(Equal(4))
		x.Expect(in.Status().Problems).To(BeEmpty())
		x.Expect(in.Status().Lists).To(BeNumerically("<=", 2))
	})
}
