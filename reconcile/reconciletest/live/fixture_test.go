package live_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// fixture is a simulated server in the place of a real one: it serves
// discovery, collects garbage a little later, and creates the usual objects in
// each namespace.
type fixture struct {
	sim    *apisim.Server
	before func(r *http.Request) *http.Response // may answer first
	slow   func(body string) time.Duration      // how long the answer to a write is under way
}

// virtually runs f in virtual time. client-go's error handler sleeps as long as
// its clock is behind the last error's.
func virtually(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, f)
}

func newFixture(t *testing.T, resources ...apisim.Resource) *fixture {
	t.Helper()
	sim, err := apisim.New(&apisim.Options{Lifecycle: true, ManagedFields: true, Resources: resources})
	if err != nil {
		t.Fatal(err)
	}
	sim.OnCommit(func(e apisim.Event) {
		if e.Resource.Resource != "namespaces" || e.Old != nil {
			return
		}
		if err := sim.Load(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.New.GetName(), Name: "kube-root-ca.crt"}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.New.GetName(), Name: "default"}},
		); err != nil {
			t.Error(err)
		}
	})
	return &fixture{sim: sim}
}

// collect lets garbage be collected from now on.
func (w *fixture) collect(t *testing.T) *fixture {
	t.Helper()
	garbage := w.sim.Collector()
	go func() {
		// So that another goroutine hardly ever acts at the same moment.
		rounds := time.NewTicker(101 * time.Millisecond)
		defer rounds.Stop()
		for {
			select {
			case <-rounds.C:
				garbage.Run()
			case <-t.Context().Done():
				return
			}
		}
	}()
	return w
}

// config is an administrator's.
func (w *fixture) config() *rest.Config {
	c := w.sim.Config("administrator")
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return gate{w, next} })
	return c
}

type gate struct {
	fixture *fixture
	next    http.RoundTripper
}

func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.fixture.before != nil {
		if resp := g.fixture.before(r); resp != nil {
			return resp, nil
		}
	}
	if found := g.fixture.discovery(r.URL.Path); found != nil {
		return reply(r, http.StatusOK, found), nil
	}
	if g.fixture.slow == nil || r.Method == http.MethodGet {
		return g.next.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := g.next.RoundTrip(r)
	select {
	case <-time.After(g.fixture.slow(string(body))):
		return resp, err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func forbidden(r *http.Request, why string) *http.Response {
	return reply(r, http.StatusForbidden, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: why,
	})
}

func reply(r *http.Request, code int, body any) *http.Response {
	text, _ := json.Marshal(body)
	return &http.Response{
		StatusCode: code, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
	}
}

// discovery returns the answer to a discovery request, or nil if the path is a
// different one.
func (w *fixture) discovery(path string) any {
	groups := map[string]*metav1.APIGroup{}
	lists := map[string]*metav1.APIResourceList{}
	var all metav1.APIGroupList
	for _, r := range w.sim.Resources() {
		gv := schema.GroupVersion{Group: r.Group, Version: r.Version}
		at := "/apis/" + gv.String()
		if r.Group == "" {
			at = "/api/" + r.Version
		}
		if lists[at] == nil {
			lists[at] = &metav1.APIResourceList{GroupVersion: gv.String()}
		}
		one := metav1.APIResource{
			Name: r.Resource, Kind: r.Kind, Namespaced: r.Namespaced, Verbs: metav1.Verbs{"list", "watch", "create"},
		}
		lists[at].APIResources = append(lists[at].APIResources, one)
		if r.Status {
			one.Name, one.Verbs = r.Resource+"/status", metav1.Verbs{"get"}
			lists[at].APIResources = append(lists[at].APIResources, one)
		}
		if r.Group == "" || groups[r.Group] != nil {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: r.Version}
		groups[r.Group] = &metav1.APIGroup{
			Name: r.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		}
		all.Groups = append(all.Groups, *groups[r.Group])
	}
	switch path {
	case "/api":
		return metav1.APIVersions{Versions: []string{"v1"}}
	case "/apis":
		return all
	}
	if list := lists[strings.TrimSuffix(path, "/")]; list != nil {
		return list
	}
	return nil
}

// objects are the names of a resource of the core.
func (w *fixture) objects(resource string) []string {
	var all []string
	for _, o := range w.sim.Objects(corev1.SchemeGroupVersion.WithResource(resource)) {
		all = append(all, o.GetName())
	}
	return all
}
