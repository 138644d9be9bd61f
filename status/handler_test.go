package status_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientmetrics "k8s.io/client-go/tools/metrics"

	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
	"github.com/homeostat/homeostat/status/profiles"
)

// client calls a handler without a network.
type client struct {
	*WithT
	handler http.Handler
}

func (c client) get(target string) (code int, body string) {
	response := c.response(httptest.NewRequest(http.MethodGet, target, http.NoBody))
	text, err := io.ReadAll(response.Body)
	c.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(text)
}

func (c client) response(r *http.Request) *http.Response {
	recorder := httptest.NewRecorder()
	c.handler.ServeHTTP(recorder, r)
	return recorder.Result()
}

// inScenario calls f when the fixture is idle, so that only the passing of time
// could change its state.
func inScenario(t *testing.T, o *status.Options, f func(c client, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		if o == nil {
			o = &status.Options{}
		}
		o.Controllers = s.controllers
		handler, err := status.New(o)
		c := client{NewWithT(t), handler}
		c.Expect(err).NotTo(HaveOccurred())
		defer s.run(t.Context())()
		<-time.After(electionTime + 2*time.Second)
		synctest.Wait()
		f(c, s)
	})
}

func TestReadyzNamesWhatIsNotReadyAndWhy(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		code, body := c.get("/readyz")
		c.Expect(code).To(Equal(http.StatusServiceUnavailable))
		c.Expect(strings.Split(strings.TrimSpace(body), "\n")).To(HaveExactElements(
			Equal("[-] informer/nodes: the informer has not synced: listing: nodes is forbidden: no role allows it "+hostile),
			Equal("[!] sweep/rollout: listing names: no such command"),
			Equal("[-] controller/drain: the controller is syncing"),
			Equal("readyz failed"),
		))
	})
}

func TestReadyzVerboseNamesEveryCheck(t *testing.T) {
	o := &status.Options{Readiness: map[string]func() error{"volumes": func() error { return nil }}}
	inScenario(t, o, func(c client, _ *fixture) {
		_, body := c.get("/readyz?verbose")
		c.Expect(strings.Split(strings.TrimSpace(body), "\n")).To(HaveExactElements(
			Equal("[+] informer/configmaps: ok, 8 objects"),
			Equal("[+] informer/deployments: ok, 0 objects"),
			Equal("[+] informer/secrets: ok, 1 object"),
			HavePrefix("[-] informer/nodes: "),
			Equal("[+] informer/configmaps-2: ok, 0 objects"),
			Equal("[+] controller/rollout: ok, working"),
			HavePrefix("[!] sweep/rollout: "),
			Equal("[-] controller/drain: the controller is syncing"),
			HavePrefix("[+] leader/rollout: ok, "),
			HavePrefix("[+] leader/drain: ok, "),
			Equal("[+] volumes: ok"),
			Equal("readyz failed"),
		))
	})
}

func TestLivezDoesNotCareWhetherThereIsWork(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		code, body := c.get("/livez?verbose")
		c.Expect(code).To(Equal(http.StatusOK))
		c.Expect(body).To(Equal("[+] controller/rollout: ok\n[+] controller/drain: ok\nok\n"))
	})
}

func TestAProcessWithoutControllersIsReady(t *testing.T) {
	handler, err := status.New(nil)
	c := client{NewWithT(t), handler}
	c.Expect(err).NotTo(HaveOccurred())
	code, body := c.get("/readyz")
	c.Expect(code).To(Equal(http.StatusOK))
	c.Expect(body).To(Equal("ok\n"))
	_, body = c.get("/debug/homeostat")
	c.Expect(body).To(ContainSubstring("There are no controllers."))
}

func TestChecksThatFailAreNamed(t *testing.T) {
	g := NewWithT(t)
	handler, err := status.New(&status.Options{Liveness: map[string]func() error{
		"disk":  func() error { return errors.New("full\n[+] forged: ok") },
		"logic": func() error { panic("boom") },
	}})
	g.Expect(err).NotTo(HaveOccurred())
	code, body := client{g, handler}.get("/livez")
	g.Expect(code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(body).To(Equal("[-] disk: full [+] forged: ok\n[-] logic: panic: boom\nlivez failed\n"))
}

// Probes are public, and a check may return an error of the API server.
func TestProbesShowNoValues(t *testing.T) {
	g := NewWithT(t)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "token", field.ErrorList{
		field.Invalid(field.NewPath("data"), secret, "not like this"),
	})
	handler, err := status.New(&status.Options{Readiness: map[string]func() error{
		"fails":  func() error { return invalid },
		"panics": func() error { panic(invalid) },
	}})
	g.Expect(err).NotTo(HaveOccurred())
	_, body := client{g, handler}.get("/readyz")
	g.Expect(body).To(Equal("[-] fails: Secret \"token\" is invalid: data: Invalid value (not shown)\n" +
		"[-] panics: panic: Secret \"token\" is invalid: data: Invalid value (not shown)\nreadyz failed\n"))
}

func TestProbesDoNotWaitForChecksThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		hang, calls := make(chan struct{}), 0
		stuck := func() error {
			calls++
			<-hang
			return nil
		}
		handler, err := status.New(&status.Options{Readiness: map[string]func() error{
			"a": stuck, "b": func() error { <-hang; return nil }, "c": func() error { return nil },
		}})
		g.Expect(err).NotTo(HaveOccurred())
		c := client{g, handler}
		began := time.Now()
		_, body := c.get("/readyz?verbose")
		g.Expect(time.Since(began)).To(Equal(500*time.Millisecond), "for all checks together")
		g.Expect(body).To(Equal("[-] a: the check has not returned for 500ms\n[-] b: the check has not returned for 500ms\n[+] c: ok\nreadyz failed\n"))
		_, body = c.get("/readyz")
		g.Expect(body).To(ContainSubstring("a: the check has not returned for 1s"))
		synctest.Wait()
		g.Expect(calls).To(Equal(1), "what hangs is not asked again")
		close(hang)
		synctest.Wait()
		code, _ := c.get("/readyz")
		g.Expect(code).To(Equal(http.StatusOK))
	})
}

func TestMetricsDefaultToTheControllers(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		clientmetrics.RequestResult.Increment(t.Context(), "200", "GET", "server") // as client-go does
		code, body := c.get("/metrics")
		c.Expect(code).To(Equal(http.StatusOK))
		c.Expect(body).To(And(
			ContainSubstring(`controller_runtime_active_workers{controller="rollout"} 1`),
			ContainSubstring("go_goroutines "), ContainSubstring(`rest_client_requests_total{code="200",host="server",method="GET"}`), Not(ContainSubstring(secret))))
	})
}

func TestTheGathererCanBeSet(t *testing.T) {
	g := NewWithT(t)
	fault, nothing := error(nil), false
	handler, err := status.New(&status.Options{Gatherer: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		name, one := "mine", 1.0
		if nothing {
			return nil, fault
		}
		return []*dto.MetricFamily{{
			Name: &name, Type: dto.MetricType_GAUGE.Enum(), Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: &one}}},
		}}, fault
	})})
	g.Expect(err).NotTo(HaveOccurred())
	c := client{g, handler}
	_, body := c.get("/metrics")
	g.Expect(body).To(Equal("# TYPE mine gauge\nmine 1\n"))
	fault = errors.New("twice the same")
	code, body := c.get("/metrics")
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(body).To(Equal("# TYPE mine gauge\nmine 1\n"), "alerts need the others")
	nothing = true
	code, body = c.get("/metrics")
	g.Expect(code).To(Equal(http.StatusInternalServerError))
	g.Expect(body).To(Equal("gathering metrics: twice the same\n"))
}

func TestAuthorizeGuardsMetricsAndThePageButNotTheProbes(t *testing.T) {
	g := NewWithT(t)
	handler, err := status.New(&status.Options{Authorize: func(r *http.Request) error {
		switch r.Header.Get("Authorization") {
		case "good":
			return nil
		case "":
			return fmt.Errorf("no token: %w", status.ErrUnauthenticated)
		default:
			return errors.New("not you")
		}
	}})
	g.Expect(err).NotTo(HaveOccurred())
	ask := func(target, token string) int {
		r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
		r.Header.Set("Authorization", token)
		return client{g, handler}.response(r).StatusCode
	}
	for _, target := range []string{"/metrics", "/debug/homeostat", "/debug/homeostat?format=json"} {
		g.Expect(ask(target, "")).To(Equal(http.StatusUnauthorized), target)
		g.Expect(ask(target, "bad")).To(Equal(http.StatusForbidden), target)
		g.Expect(ask(target, "good")).To(Equal(http.StatusOK), target)
	}
	g.Expect(ask("/livez", "")).To(Equal(http.StatusOK))
	g.Expect(ask("/readyz", "")).To(Equal(http.StatusOK))
}

func TestOnlyGetAndHeadAreServed(t *testing.T) {
	g := NewWithT(t)
	handler, err := status.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	for _, target := range []string{"/livez", "/readyz", "/metrics", "/debug/homeostat"} {
		r := httptest.NewRequest(http.MethodPost, target, http.NoBody)
		g.Expect(client{g, handler}.response(r).StatusCode).To(Equal(http.StatusMethodNotAllowed), target)
		r = httptest.NewRequest(http.MethodHead, target, http.NoBody)
		g.Expect(client{g, handler}.response(r).StatusCode).To(Equal(http.StatusOK), target)
	}
	code, _ := client{g, handler}.get("/debug/pprof")
	g.Expect(code).To(Equal(http.StatusNotFound))
}

// A load balancer may send a HEAD.
func TestAHeadIsAnsweredWithTheStatusAndNoBody(t *testing.T) {
	g := NewWithT(t)
	handler, err := status.New(&status.Options{Readiness: map[string]func() error{"a": func() error { return errors.New("no") }}})
	g.Expect(err).NotTo(HaveOccurred())
	server := httptest.NewServer(handler)
	defer server.Close()
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		answer, err := http.Head(server.URL + path) //nolint:noctx // a probe of this process
		g.Expect(err).NotTo(HaveOccurred())
		body, err := io.ReadAll(answer.Body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Body.Close()).To(Succeed())
		g.Expect(answer.StatusCode).To(Equal(want))
		g.Expect(body).To(BeEmpty())
	}
}

// The caches wait for a conversion webhook, and the API server for the process
// to be ready.
func TestAProcessCanBeReadyWithoutCaches(t *testing.T) {
	inScenario(t, &status.Options{ReadyWithoutCaches: true}, func(c client, _ *fixture) {
		code, body := c.get("/readyz")
		c.Expect(code).To(Equal(http.StatusOK))
		c.Expect(body).To(And(ContainSubstring("[!] informer/nodes: the informer has not synced: listing: nodes is forbidden"),
			ContainSubstring("[!] controller/drain: the controller is syncing"), HaveSuffix("\nok\n")))
	})
}

func TestInvalidOptionsAreAllNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		same := newFixture(t).controllers[0]
		_, err := status.New(&status.Options{
			Controllers: []*reconcile.Controller{same, nil, same},
			Liveness:    map[string]func() error{"x": nil},
			Readiness:   map[string]func() error{"": func() error { return nil }},
		})
		g.Expect(err).To(MatchError(And(
			ContainSubstring("Options.Controllers[1] is nil"),
			ContainSubstring(`Options.Controllers[2] is "rollout": must not have the name of another`),
			ContainSubstring(`Options.Liveness["x"] is nil`),
			ContainSubstring(`Options.Readiness[""] is set: must have a name`),
		)))
	})
}

func TestThePageIsServedAsJSONToo(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		code, body := c.get("/debug/homeostat?format=json")
		c.Expect(code).To(Equal(http.StatusOK))
		c.Expect(body).NotTo(ContainSubstring(secret))
		var report struct {
			Controllers []struct {
				Name, Phase, Leader string
				Triggers            []struct{ Informer, Kind, Type string }
				Slots               []struct{ State, Owner string }
				Outputs             []struct {
					Kind    string
					Watched bool
				}
				BackingOff, Retrying int
				Lanes                []struct {
					Lane  string
					Depth int
				}
				Keys []struct {
					Name, State, Error, Next string
					Attempt                  int
					BackingOff, OnHold       bool
					Causes                   []struct{ Trigger, Change, Name string }
				}
			}
			Informers []struct {
				Name, Reason string
				Namespaces   []string
				Synced       bool
				Objects      int
				Bytes        int
				LagSeconds   float64
				WatchSince   *time.Time
			}
			Problems []struct{ Check string }
		}
		c.Expect(json.Unmarshal([]byte(body), &report)).To(Succeed())
		c.Expect(report.Controllers).To(HaveLen(2))
		rollout := report.Controllers[0]
		c.Expect(rollout.Name + " " + rollout.Phase + " " + rollout.Leader).To(Equal("rollout working replica-1 leads"))
		c.Expect(rollout.Lanes).To(HaveLen(3))
		c.Expect(rollout.Slots).To(BeEmpty())
		c.Expect(report.Controllers[1].Slots[3]).To(Equal(struct{ State, Owner string }{"unavailable", "c"}))
		states := map[string]string{}
		for _, k := range rollout.Keys {
			states[k.Name] = fmt.Sprint(k.State, " ", k.Attempt, k.BackingOff, k.OnHold, k.Error != "")
		}
		c.Expect(states).To(Equal(map[string]string{
			"slow":     "held 1 false false false",
			"broken":   "delayed 2 true false true",
			hostile:    "delayed 2 true false true",
			"later":    "delayed 1 false false false",
			"unseen":   "delayed 1 false true false",
			"hopeless": "resting 1 false false true",
		}))
		c.Expect(rollout.Keys[0].Causes).To(ContainElement(HaveField("Trigger", "configmaps")))
		watched := map[string]bool{}
		for _, o := range rollout.Outputs {
			watched[o.Kind] = o.Watched
		}
		c.Expect(watched).To(Equal(map[string]bool{"Deployment": true, "Secret": true, "Event": false}))
		c.Expect(report.Problems).To(HaveLen(3))
		c.Expect(report.Informers).To(HaveLen(5))
		maps := report.Informers[0]
		c.Expect(maps.Namespaces).To(Equal([]string{"d"}))
		c.Expect(maps.Bytes).To(BeNumerically(">", 1000))
		c.Expect(maps.LagSeconds).To(BeZero())
		c.Expect(*maps.WatchSince).To(BeTemporally("==", time.Now().Add(-electionTime-2*time.Second)))
		c.Expect([]int{rollout.BackingOff, rollout.Retrying}).To(Equal([]int{2, 2}))
	})
}

func TestProfilesNeedAuthorize(t *testing.T) {
	for want, authorize := range map[int]func(*http.Request) error{
		http.StatusNotFound:  nil,
		http.StatusForbidden: func(*http.Request) error { return errors.New("no") },
	} {
		g := NewWithT(t)
		handler, err := status.New(&status.Options{Authorize: authorize, Profiles: profiles.Handler()})
		g.Expect(err).NotTo(HaveOccurred())
		code, _ := client{g, handler}.get("/debug/pprof/heap")
		g.Expect(code).To(Equal(want))
	}
	_, registered := http.DefaultServeMux.Handler(httptest.NewRequest(http.MethodGet, "/debug/pprof/heap", http.NoBody))
	NewWithT(t).Expect(registered).To(BeEmpty(), "the program's default mux serves none, either")
}
