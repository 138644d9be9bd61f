package informer_test

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
)

// textual is an aggregated API server of Nodes that finds the resourceVersion
// of a list by comparing texts. For example, the list of two Nodes with the
// resourceVersions 9 and 100 has the resourceVersion 9.
type textual struct {
	mu      sync.Mutex // guards the fields below
	nodes   map[string]*corev1.Node
	events  []dated
	version int
	changed chan struct{}
	late    bool // whether watches deliver nothing

	// paged is true if each list has two pages, and quiet if a watch begins
	// with the next event, and not at its resourceVersion.
	paged, quiet bool
}

// dated is an event with its resourceVersion.
type dated struct {
	version int
	event   any
}

func (s *textual) begin() {
	s.nodes, s.version, s.changed = map[string]*corev1.Node{}, 7, make(chan struct{})
	s.write("a")
	s.write("b")
	s.version = 99
	s.write("c")
}

// write creates or changes a Node.
func (s *textual) write(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	kind := modified
	if s.nodes[name] == nil {
		kind = added
	}
	s.nodes[name] = versioned(name, name, strconv.Itoa(s.version))
	s.tell(kind(s.nodes[name]))
}

func (s *textual) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	delete(s.nodes, name)
	s.tell(deleted(versioned(name, name, strconv.Itoa(s.version))))
}

func (s *textual) setLate(late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = late
	s.wake()
}

func (s *textual) tell(e any) {
	s.events = append(s.events, dated{s.version, e})
	s.wake()
}

func (s *textual) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *textual) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch query := r.URL.Query(); {
	case query.Has("sendInitialEvents"):
		refuse(http.StatusUnprocessableEntity, "Invalid")(w, r)
	case query.Has("watch"):
		s.watch(w, r)
	default:
		s.mu.Lock()
		var nodes []*corev1.Node
		newest := ""
		for _, n := range s.nodes {
			nodes, newest = append(nodes, n), max(newest, n.ResourceVersion)
		}
		s.mu.Unlock()
		slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
		page := corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: newest}}
		switch {
		case !s.paged:
		case query.Get("continue") == "":
			nodes, page.Continue = nodes[:1], "next"
		default:
			nodes = nodes[1:]
		}
		for _, n := range nodes {
			page.Items = append(page.Items, *n)
		}
		answer(http.StatusOK, &page)(w, r)
	}
}

// watch delivers the events after a resourceVersion, for a minute.
func (s *textual) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	flush(w)
	end := time.After(time.Minute)
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	next := 0
	if s.quiet {
		s.mu.Lock()
		next = len(s.events)
		s.mu.Unlock()
	}
	for {
		s.mu.Lock()
		var events []any
		if !s.late {
			for _, e := range s.events[next:] {
				if e.version > from {
					events = append(events, e.event)
				}
			}
			next = len(s.events)
		}
		changed := s.changed
		s.mu.Unlock()
		if len(events) > 0 {
			stream(func(http.ResponseWriter, *http.Request) {}, events...)(w, r)
		}
		select {
		case <-changed:
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func inTextual(t *testing.T, s *textual, f func(ctx context.Context, g *WithT, in *informer.Informer[*corev1.Node])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s.begin()
		client, done := clientTo("", s)
		defer done()
		in := informer.For(client.CoreV1().Nodes(), nil)
		t.Cleanup(running(context.WithoutCancel(t.Context()), in))
		g.Expect(in.WaitForSync(t.Context())).To(Succeed())
		f(t.Context(), g, in)
	})
}

func TestAServerWhoseListsAreOlderThanTheirObjectsWasNotRestored(t *testing.T) {
	s := &textual{}
	inTextual(t, s, func(_ context.Context, g *WithT, in *informer.Informer[*corev1.Node]) {
		for range 10 {
			<-time.After(65 * time.Second)
			s.write("c")
		}
		s.remove("c")
		<-time.After(5 * time.Minute)
		status := in.Status()
		g.Expect(status.Objects).To(Equal(2))
		g.Expect(status.Restores).To(BeZero())
		g.Expect(status.Lists).To(BeEquivalentTo(1))
		g.Expect(status.Problems).To(BeEmpty())
	})
}

func TestTheLatestStateOfAServerWhoseListsAreOlderThanTheirObjects(t *testing.T) {
	for name, change := range map[string]func(*textual){
		"created":             func(s *textual) { s.write("d") },
		"changed":             func(s *textual) { s.write("a") },
		"the newest, changed": func(s *textual) { s.write("c") },
		"deleted":             func(s *textual) { s.remove("a") },
		"the newest, deleted": func(s *textual) { s.remove("c") },
		"deleted and created": func(s *textual) { s.remove("c"); s.write("c") },
	} {
		for kind, s := range map[string]*textual{"replays": {}, "in pages": {paged: true}, "quiet": {quiet: true}} {
			t.Run(name+", "+kind, func(t *testing.T) { testLate(t, s, change) })
		}
	}
}

// testLate makes a change that the watch delivers late.
func testLate(t *testing.T, s *textual, change func(*textual)) {
	inTextual(t, s, func(ctx context.Context, g *WithT, in *informer.Informer[*corev1.Node]) {
		<-time.After(10 * time.Second)
		if !s.quiet {
			s.write("c")
		}
		g.Expect(in.WaitForLatest(ctx)).To(Succeed(), "nothing is late")
		s.setLate(true)
		change(s)
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		g.Expect(in.WaitForLatest(limited)).To(MatchError(context.DeadlineExceeded))
		time.AfterFunc(5*time.Second, func() { s.setLate(false) })
		g.Expect(in.WaitForLatest(ctx)).To(Succeed())
		s.mu.Lock()
		defer s.mu.Unlock()
		g.Expect(in.Snapshot().Len()).To(Equal(len(s.nodes)))
		for node := range in.Snapshot().All() {
			g.Expect(node.ResourceVersion).To(Equal(s.nodes[node.Name].ResourceVersion))
		}
	})
}

// The resourceVersions of such a server prove nothing.
func TestListsOlderThanTheirObjectsProveNoDeletion(t *testing.T) {
	inTextual(t, &textual{}, func(ctx context.Context, g *WithT, in *informer.Informer[*corev1.Node]) {
		<-time.After(10 * time.Second)
		for range 30 { // a burst asks the server, and believes an ordered one
			g.Expect(in.IsDeleted(ctx, types.NamespacedName{Name: "never"})).To(BeFalse())
		}
	})
}
