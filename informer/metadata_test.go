package informer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// wrongMetadata are members of an object's metadata whose values have a wrong
// type.
var wrongMetadata = map[string]any{
	"resourceVersion":   json.Number("its own"),
	"resourceVersion ":  true, //nolint:gocritic // a second row for resourceVersion
	"uid":               []any{"x"},
	"labels":            5,
	"annotations":       map[string]any{"note": 5},
	"ownerReferences":   map[string]any{},
	"deletionTimestamp": "soon",
	"creationTimestamp": true,
	"finalizers":        "x",
	"generation":        "3",
}

// spoiler sets a member of the metadata of job b in all answers.
type spoiler struct {
	member string
	value  any
	on     atomic.Bool
}

func (s *spoiler) wrap(next http.RoundTripper) http.RoundTripper {
	return transportFunc(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			answer.Body, answer.ContentLength = &spoiled{Closer: answer.Body, reader: bufio.NewReader(answer.Body), spoiler: s}, -1
		}
		return answer, err
	})
}

// spoiled is a body of lines.
type spoiled struct {
	io.Closer
	reader  *bufio.Reader
	spoiler *spoiler
	rest    []byte
}

func (b *spoiled) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		line, err := b.reader.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		b.rest = b.spoiler.spoil(line)
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (s *spoiler) spoil(line []byte) []byte {
	var answer map[string]any
	if !s.on.Load() || json.Unmarshal(line, &answer) != nil {
		return line
	}
	items, _ := answer["items"].([]any)
	for _, object := range append(items, answer["object"]) {
		object, _ := object.(map[string]any)
		if m, ok := object["metadata"].(map[string]any); ok && m["name"] == "b" {
			if s.value == json.Number("its own") {
				m["resourceVersion"] = json.RawMessage(m["resourceVersion"].(string))
			} else {
				m[strings.TrimSpace(s.member)] = s.value
			}
		}
	}
	line, _ = json.Marshal(answer)
	return append(line, '\n')
}

// The list, the streaming list and the watch of each type of client leave out
// one object, name it and its field, and take it up again when it is mended.
func TestOneObjectWithWrongMetadataStopsNoOther(t *testing.T) {
	for member, value := range wrongMetadata {
		for _, unstreamed := range []bool{false, true} {
			for _, early := range []bool{false, true} {
				for name, read := range readers {
					t.Run(fmt.Sprintf("%s, %s, unstreamed %v, early %v", member, name, unstreamed, early), func(t *testing.T) {
						withJobs(t, &apisim.Options{NoStreamingLists: unstreamed}, good, func(x *jobs) {
							s := &spoiler{member: member, value: value}
							s.on.Store(early)
							config := x.sim.Config("m")
							config.Wrap(s.wrap)
							read(x, config, s)
						})
					})
				}
			}
		}
	}
}

var readers = map[string]func(x *jobs, config *rest.Config, s *spoiler){
	"typed": func(x *jobs, config *rest.Config, s *spoiler) {
		readWrong(x, gentype.NewClientWithList[*job, *jobList](ofJobs.Resource, x.kindOf(config).In("").GetClient(),
			metav1.ParameterCodec, "d", func() *job { return &job{} }, func() *jobList { return &jobList{} }), s)
	},
	"typed of package cluster": func(x *jobs, config *rest.Config, s *spoiler) {
		readWrong(x, x.kindOf(config).In("d"), s)
	},
	"dynamic": func(x *jobs, config *rest.Config, s *spoiler) {
		client := informer.Untyped(dynamic.NewForConfigOrDie(config).Resource(ofJobs).Namespace("d"))
		readWrong(x, client, s)
	},
	"metadata": func(x *jobs, config *rest.Config, s *spoiler) {
		client := informer.Untyped(metadata.NewForConfigOrDie(config).Resource(ofJobs).Namespace("d"))
		readWrong(x, client, s)
	},
}

// kindOf is the client of jobs of a configuration.
func (x *jobs) kindOf(config *rest.Config) *cluster.Kind[*job, *jobList] {
	x.t.Helper()
	reached, err := cluster.New(config, nil)
	x.Expect(err).NotTo(HaveOccurred())
	client, err := cluster.NewKind[*job, *jobList](reached, ofJobs, addJobs)
	x.Expect(err).NotTo(HaveOccurred())
	return client
}

func readWrong[T informer.Object, L runtime.Object](x *jobs, client informer.Client[T, L], s *spoiler) {
	x.t.Helper()
	in := informer.For(client, nil)
	defer running(x.t.Context(), in)()
	limited, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	x.Expect(in.WaitForSync(limited)).To(Succeed())
	s.on.Store(true)
	replicas := int64(1)
	edit := func(name string) string {
		x.t.Helper()
		replicas++
		x.update(name, map[string]any{"replicas": replicas})
		pass(time.Minute)
		o, err := x.admin.Namespace("d").Get(x.t.Context(), name, metav1.GetOptions{})
		x.Expect(err).NotTo(HaveOccurred())
		return o.GetResourceVersion()
	}
	cached := func(name string) string {
		object, ok := in.Get(keyOfJob(name))
		if !ok {
			return ""
		}
		return object.GetResourceVersion()
	}
	edit("b")
	x.Expect(in.Unreadable(keyOfJob("b"))).To(MatchError(ContainSubstring("metadata." + strings.TrimSpace(s.member))))
	x.Expect(in.Status().Problems).To(HaveLen(1))
	x.Expect(in.Status().Problems[0].Object).To(HaveSuffix(`"d/b"`))
	x.Expect(in.IsDeleted(x.t.Context(), keyOfJob("b"))).To(BeFalse())
	version := edit("a")
	x.Expect(cached("a")).To(Equal(version), "the watch goes on")

	s.on.Store(false)
	version = edit("b")
	x.Expect(cached("b")).To(Equal(version))
	x.Expect(in.Unreadable(keyOfJob("b"))).To(Succeed(), "it heals")
	x.Expect(in.Status().Problems).To(BeEmpty())
	x.Expect(in.Status().Objects).To(Equal(2))
}
