package reconcile_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/reconcile"
)

// ledger has what several replicas of one controller reconcile, and what may
// never be seen of that. The value of an object grows with each write.
type ledger struct {
	mu         sync.Mutex // guards the fields below
	busy       map[reconcile.Key]string
	dead       map[string]bool // replicas of which no request arrives
	last       map[reconcile.Key]lastSeen
	written    map[reconcile.Key]map[int]time.Time // when a value was written that has not been seen
	writes     int
	reconciles int
	worst      time.Duration // from a write to its reconcile
	faults     []string
	twice      []string // what a replica has reconciled twice in succession, with the same value
}

// lastSeen is the last reconcile of a key.
type lastSeen struct {
	by    string
	value int
}

func newLedger() *ledger {
	l := &ledger{
		busy: map[reconcile.Key]string{}, dead: map[string]bool{}, written: map[reconcile.Key]map[int]time.Time{},
	}
	l.restart()
	return l
}

// restart forgets the faults and the reconciles.
func (l *ledger) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.faults, l.twice, l.worst = map[reconcile.Key]lastSeen{}, nil, nil, 0
}

// begin notes that a replica begins to reconcile a key.
func (l *ledger) begin(key reconcile.Key, by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.busy[key]; other != "" {
		l.faults = append(l.faults, fmt.Sprintf("%v is reconciled by %s and %s at once", key, other, by))
	}
	l.busy[key] = by
	l.reconciles++
}

// end notes that it has ended.
func (l *ledger) end(key reconcile.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, key)
}

// saw notes the value that a reconcile has seen.
func (l *ledger) saw(key reconcile.Key, by string, value int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := lastSeen{by, value}
	if l.last[key] == now {
		l.twice = append(l.twice, fmt.Sprintf("%v by %s with the value %d", key, by, value))
	}
	l.last[key] = now
	for earlier, at := range l.written[key] {
		if earlier <= value {
			l.worst = max(l.worst, time.Since(at))
			delete(l.written[key], earlier)
		}
	}
}

// writing notes that a value is about to be written.
func (l *ledger) writing(key reconcile.Key, value int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written[key] == nil {
		l.written[key] = map[int]time.Time{}
	}
	l.written[key][value] = time.Now()
	l.writes++
}

// unseen returns how many values have not been seen.
func (l *ledger) unseen() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.written {
		n += len(of)
	}
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// noting wraps the transport of a replica, and notes when it lists again what
// has stayed with it.
func (l *ledger) noting(by string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps") {
				l.asked(by, r.URL.Query())
			}
			return next.RoundTrip(r)
		})
	}
}

// killed records that no further request of a replica arrives.
func (l *ledger) killed(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead[name] = true
}

// hears returns a handler that notes when a shard is lost: another replica may
// own it until it returns.
func (l *ledger) hears(by string) func(informer.Event[*corev1.ConfigMap]) {
	return func(e informer.Event[*corev1.ConfigMap]) {
		if e.Type != informer.Deleted {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if key := (reconcile.Key{Namespace: e.Old.Namespace, Name: e.Old.Name}); l.last[key].by == by {
			delete(l.last, key)
		}
	}
}

// asked notes a list of what the replica was the last to reconcile. One of one
// object only asks how new the server is.
func (l *ledger) asked(by string, query url.Values) {
	watches := query.Has("watch") && query.Get("sendInitialEvents") != "true"
	if watches || query.Has("continue") || query.Get("limit") == "1" || query.Get("limit") == "100" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	set, err := keyspace.FromSelector(query.Get("shardSelector"))
	if err != nil {
		l.faults = append(l.faults, err.Error())
	}
	for key, last := range l.last {
		if last.by == by && !l.dead[by] && keyspace.Has(set, key.Namespace) {
			l.faults = append(l.faults, fmt.Sprintf("%s has %v and lists it again", by, key))
			return
		}
	}
}
