package leader_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/leader"
)

// echo answers a request with its own body.
func echo(req *http.Request) *absenttest.Page {
	if req.Method != http.MethodPut {
		return nil
	}
	body, _ := io.ReadAll(req.Body)
	return &absenttest.Page{ContentType: req.Header.Get("Content-Type"), Body: string(body), Status: http.StatusOK}
}

// From some moment on, a gateway between the leader and the server answers 200.
// The server gets no renewal, so another replica takes the Lease. The leader
// must have stopped before that.
func TestARenewalThatTheServerDoesNotAnswerIsNotARenewal(t *testing.T) {
	answers := map[string]func(*http.Request) *absenttest.Page{
		"what was sent": echo,
		"another Lease": func(*http.Request) *absenttest.Page {
			return &absenttest.Page{
				ContentType: "application/json", Status: http.StatusOK,
				Body: `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"other","namespace":"d",` +
					`"uid":"u","resourceVersion":"77"},"spec":{}}`,
			}
		},
	}
	for _, page := range absenttest.Successes() {
		answers[page.Name] = func(*http.Request) *absenttest.Page { return &page }
	}
	for name, answer := range answers {
		t.Run(strings.ReplaceAll(name, "/", " "), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { twoReplicas(t, answer) })
		})
	}
}

// twoReplicas runs a leader whose requests are answered by answer after a
// while, and a standby with a server that works.
func twoReplicas(t *testing.T, answer func(*http.Request) *absenttest.Page) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	var between atomic.Bool
	broken := absenttest.Intercept(sim.Config("a"), func(req *http.Request) *absenttest.Page {
		if between.Load() {
			return answer(req)
		}
		return nil
	})
	var leading, most atomic.Int32
	var last atomic.Value
	elect := func(id string, config *rest.Config) (stop func()) {
		e, err := leader.New(leader.Lease{
			Client: kubernetes.NewForConfigOrDie(config).CoordinationV1(), Namespace: "d", Name: "l", Identity: id,
		}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		wait := background(func() error {
			return e.Run(ctx, func(ctx context.Context) error {
				most.Store(max(most.Load(), leading.Add(1)))
				last.Store(id)
				<-ctx.Done()
				leading.Add(-1)
				return nil
			})
		})
		return func() {
			cancel()
			_ = wait()
		}
	}
	defer elect("a", broken)()
	<-time.After(5 * time.Second)
	defer elect("b", sim.Config("b"))()
	<-time.After(20 * time.Second)
	g.Expect(last.Load()).To(Equal("a"))
	between.Store(true)
	<-time.After(2 * time.Minute)
	g.Expect(last.Load()).To(Equal("b"))
	g.Expect(most.Load()).To(Equal(int32(1)), "replicas that lead at once")
}
