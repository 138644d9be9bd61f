package apisim_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// seen is one event as a watcher received it.
type seen struct {
	typ     string
	version int64
	name    string
	data    string
	labels  map[string]any
}

// viewer keeps a copy of a selector's objects by watching. It resumes where a
// stream ended, and lists after a 410.
type viewer struct {
	client  *http.Client
	query   string
	state   map[string]string // name → data
	version int64
	streams [][]seen
	lists   int
	fault   string
}

func (v *viewer) run(ctx context.Context) {
	for ctx.Err() == nil && v.fault == "" {
		if v.version == 0 && !v.list(ctx) {
			continue
		}
		v.stream(ctx)
	}
}

func (v *viewer) get(ctx context.Context, query string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://apisim/api/v1/namespaces/d/configmaps?"+query+v.query, nil)
	if err != nil {
		return nil, err
	}
	return v.client.Do(req)
}

func (v *viewer) list(ctx context.Context) bool {
	resp, err := v.get(ctx, "")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var l struct {
		Metadata metav1.ListMeta
		Items    []struct {
			Metadata metav1.ObjectMeta
			Data     map[string]string
		}
	}
	if json.NewDecoder(resp.Body).Decode(&l) != nil || resp.StatusCode != http.StatusOK {
		return false
	}
	v.lists++
	v.state = map[string]string{}
	for _, o := range l.Items {
		v.state[o.Metadata.Name] = o.Data["n"]
	}
	v.version, _ = strconv.ParseInt(l.Metadata.ResourceVersion, 10, 64)
	return true
}

func (v *viewer) stream(ctx context.Context) {
	resp, err := v.get(ctx, fmt.Sprintf("watch=1&allowWatchBookmarks=true&resourceVersion=%d", v.version))
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusGone {
		v.version = 0
	}
	if resp.StatusCode != http.StatusOK {
		return
	}
	v.streams = append(v.streams, nil)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		e, err := parseEvent(lines.Bytes())
		if err != nil {
			v.fault = err.Error()
			return
		}
		if e.typ == "ERROR" {
			v.version = 0
			return
		}
		v.take(e)
	}
}

func parseEvent(line []byte) (seen, error) {
	var e struct {
		Type   string
		Object struct {
			Metadata struct {
				Name, ResourceVersion string
				Labels                map[string]any
			}
			Data map[string]string
		}
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return seen{}, err
	}
	m := e.Object.Metadata
	version, _ := strconv.ParseInt(m.ResourceVersion, 10, 64)
	return seen{typ: e.Type, version: version, name: m.Name, data: e.Object.Data["n"], labels: m.Labels}, nil
}

// take checks one event against the guarantees of a single stream.
func (v *viewer) take(e seen) {
	_, known := v.state[e.name]
	switch {
	case e.version < v.version, e.version == v.version && e.typ != "BOOKMARK":
		v.fault = fmt.Sprintf("ordered, unique: %+v after version %d", e, v.version)
	case e.typ == "ADDED" && known, e.typ == "MODIFIED" && !known, e.typ == "DELETED" && !known:
		v.fault = fmt.Sprintf("reliable: %+v, known: %v", e, known)
	case e.typ == "ADDED", e.typ == "MODIFIED":
		v.state[e.name] = e.data
	case e.typ == "DELETED":
		delete(v.state, e.name)
	}
	v.version = e.version
	last := len(v.streams) - 1
	v.streams[last] = append(v.streams[last], e)
}

// TestWatchGuarantees is the list of etcd's watch guarantees as a property of
// random runs: ordered, unique, reliable, atomic, resumable, bookmarkable; with
// selectors that objects enter and leave, dropped streams and compaction.
func TestWatchGuarantees(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) { watchRun(t, seed) })
	}
}

func watchRun(t *testing.T, seed uint64) {
	g := gomega.NewWithT(t)
	sim, err := apisim.New(&apisim.Options{History: 40})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	sched := sim.Schedule(0)
	truth := follow(sim)
	ctx, cancel := context.WithCancel(t.Context())
	viewers := []*viewer{{query: ""}, {query: "&labelSelector=in%3D1"}, {query: "&fieldSelector=metadata.name%3Dc1"}}
	for i, v := range viewers {
		client, err := rest.HTTPClientFor(sim.Config(fmt.Sprint("v", i)))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		v.client = client
		go v.run(ctx)
	}
	writes := 150
	rng := rand.New(rand.NewPCG(seed, 1))
	cs := kubernetes.NewForConfigOrDie(sim.Admin())
	sched.Add(&apisim.Extra{
		Name: "write", Enabled: func() bool { return writes > 0 },
		Do: func() { writes--; randomWrite(ctx, cs, rng) },
	})
	policy := apisim.NewRandom(seed, apisim.Odds{Drop: 0.05, Bookmark: 0.1, Fault: 0.1, Faults: []apisim.Fault{
		apisim.Internal, apisim.Unreachable, apisim.Expired,
	}})
	out := sched.Run(policy, apisim.Limits{Steps: 20_000, Horizon: time.Second})
	policy.Calm(true)
	g.Expect(out).To(gomega.Equal(apisim.Quiescent))
	g.Expect(sched.Run(policy, apisim.Limits{Steps: 1000, Horizon: time.Second})).To(gomega.Equal(apisim.Quiescent))
	for i, v := range viewers {
		g.Expect(v.fault).To(gomega.BeEmpty(), "seed %d viewer %d\n%s", seed, i, strings.Join(sched.Trace(), "\n"))
		g.Expect(v.state).To(gomega.Equal(truth.selected(i, sim.Version())), "seed %d viewer %d", seed, i)
		for _, s := range v.streams {
			g.Expect(truth.explains(i, s)).To(gomega.Succeed(), "seed %d viewer %d", seed, i)
		}
	}
	cancel()
	sched.Stop()
}

func randomWrite(ctx context.Context, cs kubernetes.Interface, rng *rand.Rand) {
	name := fmt.Sprint("c", rng.IntN(4))
	api := cs.CoreV1().ConfigMaps("d")
	if rng.IntN(4) == 0 {
		_ = api.Delete(ctx, name, metav1.DeleteOptions{})
		return
	}
	cm := configMap(name)
	if _, err := api.Create(ctx, cm, metav1.CreateOptions{}); err == nil {
		return
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"in":"%d"}},"data":{"n":"%d"}}`, rng.IntN(2), rng.IntN(3))
	_, _ = api.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// history records every commit and the state after it.
type history struct {
	versions []int64
	states   []map[string]apisim.Event
}

func follow(sim *apisim.Server) *history {
	h := &history{versions: []int64{sim.Version()}, states: []map[string]apisim.Event{{}}}
	sim.OnCommit(func(e apisim.Event) {
		next := maps.Clone(h.states[len(h.states)-1])
		if e.New == nil {
			delete(next, e.Key.Name)
		} else {
			next[e.Key.Name] = e
		}
		h.versions, h.states = append(h.versions, e.Version), append(h.states, next)
	})
	return h
}

func (h *history) selected(viewer int, version int64) map[string]string {
	state := map[string]string{}
	for i, v := range h.versions {
		if v > version {
			break
		}
		state = map[string]string{}
		for name, e := range h.states[i] {
			in := e.New.GetLabels()["in"] == "1"
			if viewer == 0 || viewer == 1 && in || viewer == 2 && name == "c1" {
				data, _ := e.New.Object["data"].(map[string]any)
				n, _ := data["n"].(string)
				state[name] = n
			}
		}
	}
	return state
}

// explains checks one stream against the history: no change between two of its
// events is missing, each event is the change of its version, and a bookmark
// follows all events that it covers.
func (h *history) explains(viewer int, stream []seen) error {
	if len(stream) == 0 {
		return nil
	}
	from := stream[0].version
	for i, v := range h.versions {
		if v <= from || v > stream[len(stream)-1].version || i == 0 {
			continue
		}
		before, after := h.selected(viewer, h.versions[i-1]), h.selected(viewer, v)
		var got []seen
		for _, e := range stream {
			if e.version == v && e.typ != "BOOKMARK" {
				got = append(got, e)
			}
		}
		if maps.Equal(before, after) {
			continue // a change that this viewer cannot see or does not keep
		}
		if len(got) != 1 {
			return fmt.Errorf("version %d: %v became %v, and the stream has %v", v, before, after, got)
		}
		now, there := after[got[0].name]
		if there == (got[0].typ == "DELETED") || there && now != got[0].data {
			return fmt.Errorf("version %d: %v became %v, and the stream has %v", v, before, after, got)
		}
	}
	return nil
}
