package reconcile_test

import (
	"context"
	"flag"
	"fmt"
	copies "maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

var (
	referenceSteps = flag.Int("reference-steps", 6000, "steps of the random world of keys and what they refer to")
	referenceSeed  = flag.Uint64("reference-seed", 0, "the first seed of the random world of keys and what they refer to")
)

// chainWorld is a world in which everything happens at random, and what a plain
// model says of it: a ConfigMap of namespace d names a link, which is a
// ConfigMap of another namespace, and that names Secrets of its own namespace.
// The controller is sharded by the first letter of the name.
type chainWorld struct {
	*referring

	random *rand.Rand
	links  *informer.References[*configMap]
	shards *parts
	here   map[byte]bool
	shown  map[string]string // the last reconcile of each key of this replica
	now    chainState
	then   chainState // at the version of the backup
	backup int64      // 0: none
	writes int
}

// chainState is what the server has.
type chainState struct {
	owners  map[string]string // the link that it names, as namespace/name
	links   map[string]string // the names of Secrets
	secrets map[string]string // the values, by namespace/name
}

func (s chainState) clone() chainState {
	return chainState{copies.Clone(s.owners), copies.Clone(s.links), copies.Clone(s.secrets)}
}

const chainNamespaces = 3

var chainLetters = []byte("abc")

func linkOf(m *configMap) []reconcile.Key {
	namespace, name, _ := strings.Cut(m.Data["link"], "/")
	return []reconcile.Key{{Namespace: namespace, Name: name}}
}

func newChainWorld(w *referring, seed uint64) *chainWorld {
	m := &chainWorld{
		referring: w, random: rand.New(rand.NewPCG(seed, 2)), shards: newParts(), here: map[byte]bool{},
		shown: map[string]string{}, now: chainState{map[string]string{}, map[string]string{}, map[string]string{}},
	}
	m.links = informer.Referenced(w.cluster.Client().CoreV1().ConfigMaps, &informer.Options{Name: "links"})
	through := func(o *configMap) []reconcile.Key {
		if link, ok := m.links.Get(linkOf(o)[0]); ok {
			return secretsOf(link)
		}
		return nil
	}
	w.run(&reconcile.Options{Shards: m.shards, Triggers: []reconcile.Trigger{
		reconcile.References(m.links, linkOf), reconcile.References(w.secrets, through),
	}}, func(_ context.Context, r request) {
		o, ok := r.Object()
		line := "deleted"
		if ok {
			line = m.line(o.Data["link"], func(key reconcile.Key) (string, bool) {
				link, ok := m.links.Get(key)
				if !ok {
					return "", false
				}
				return link.Data["secret"], true
			}, func(key reconcile.Key) (string, bool) {
				secret, ok := m.secrets.Get(key)
				if !ok {
					return "", false
				}
				return string(secret.Data["v"]), true
			})
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		m.shown[r.Key.Name] = line
	})
	return m
}

// line is what a reconcile shows of a link and its Secrets.
func (m *chainWorld) line(link string, linkIn, secretIn func(reconcile.Key) (string, bool)) string {
	namespace, name, _ := strings.Cut(link, "/")
	names, ok := linkIn(reconcile.Key{Namespace: namespace, Name: name})
	if !ok {
		return link + " does not exist"
	}
	line := link
	for other := range strings.FieldsSeq(names) {
		value, ok := secretIn(reconcile.Key{Namespace: namespace, Name: other})
		line += fmt.Sprintf(" %s=%s,%v", other, value, ok)
	}
	return line
}

// step does something at random.
func (m *chainWorld) step() {
	m.writes++
	namespace := fmt.Sprint("n", m.random.IntN(chainNamespaces))
	link, secret := fmt.Sprint("l", m.random.IntN(4)), fmt.Sprint("s", m.random.IntN(4))
	owner := fmt.Sprintf("%c%d", chainLetters[m.random.IntN(len(chainLetters))], m.random.IntN(4))
	switch n := m.random.IntN(100); {
	case n < 20:
		m.putOwner(owner, namespace+"/"+link)
	case n < 26:
		m.remove("d", "configmaps", owner, m.now.owners, owner)
	case n < 40:
		m.putLink(namespace, link, secret+strings.Repeat(fmt.Sprint(" s", m.random.IntN(4)), m.random.IntN(2)))
	case n < 45:
		m.remove(namespace, "configmaps", link, m.now.links, namespace+"/"+link)
	case n < 62:
		m.putSecret(namespace, secret, fmt.Sprint(m.writes))
		m.now.secrets[namespace+"/"+secret] = fmt.Sprint(m.writes)
	case n < 70:
		m.remove(namespace, "secrets", secret, m.now.secrets, namespace+"/"+secret)
	case n < 72:
		m.vanish(namespace)
	case n < 76:
		m.deny(namespace, m.random.IntN(2) == 0)
	case n < 80:
		m.server.DropWatches("operator", []string{"secrets", "configmaps"}[m.random.IntN(2)])
	case n < 82:
		m.server.Compact([]string{"secrets", "configmaps"}[m.random.IntN(2)])
	case n < 88:
		m.move(chainLetters[m.random.IntN(len(chainLetters))])
	case n < 90:
		m.backUpOrRestore()
	case n < 99:
		pass(time.Duration(m.random.IntN(3000)) * time.Millisecond)
	default:
		pass(time.Duration(m.random.IntN(20)) * time.Minute)
	}
}

func (m *chainWorld) putOwner(name, link string) {
	m.put("d", name, "link", link)
	m.now.owners[name] = link
}

func (m *chainWorld) putLink(namespace, name, secrets string) {
	m.put(namespace, name, "secret", secrets)
	m.now.links[namespace+"/"+name] = secrets
}

// vanish deletes everything in a namespace.
func (m *chainWorld) vanish(namespace string) {
	for resource, all := range map[string]map[string]string{"configmaps": m.now.links, "secrets": m.now.secrets} {
		for _, at := range slices.Sorted(copies.Keys(all)) {
			if in, name, _ := strings.Cut(at, "/"); in == namespace {
				m.remove(namespace, resource, name, all, at)
			}
		}
	}
}

func (m *chainWorld) remove(namespace, resource, name string, from map[string]string, at string) {
	if _, ok := from[at]; !ok {
		return
	}
	delete(from, at)
	var err error
	if resource == "secrets" {
		err = m.admin.CoreV1().Secrets(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	} else {
		err = m.admin.CoreV1().ConfigMaps(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	}
	m.Expect(err).NotTo(HaveOccurred())
}

// move takes a slot, or gives it away.
func (m *chainWorld) move(letter byte) {
	if !m.here[letter] {
		m.here[letter] = true
		m.shards.take(letter)
		return
	}
	m.here[letter] = false
	ended := make(chan error, 1)
	wait := m.shards.leave(letter, errMoves)
	go func() { ended <- wait() }()
	select {
	case err := <-ended:
		m.Expect(err).NotTo(HaveOccurred())
	case <-time.After(time.Hour):
		m.t.Fatalf("slot %c is not given away within an hour", letter)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.shown {
		if key[0] == letter {
			delete(m.shown, key)
		}
	}
}

// backUpOrRestore restores the server to the last backup, which may be too old,
// or makes one. A server is down while it is restored: without that, a watch
// that the server ends in time just then would be resumed at a state that was
// lost. Then nobody writes for a while: the informer of the ConfigMaps in d
// could not see that the server has been older than it.
func (m *chainWorld) backUpOrRestore() {
	if m.backup == 0 || m.random.IntN(2) == 0 {
		m.backup, m.then = m.server.Version(), m.now.clone()
		return
	}
	m.setDown(true)
	if m.server.Restore(m.backup) == nil { // it is not too old
		m.now = m.then.clone()
	}
	pass(3 * time.Second)
	m.setDown(false)
	pass(time.Minute)
}

func (m *chainWorld) setDown(is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isDown = is
}

// check compares what was reconciled and what is held with the model, when
// everything has settled.
func (m *chainWorld) check() {
	m.t.Helper()
	for n := range chainNamespaces {
		m.deny(fmt.Sprint("n", n), false)
	}
	m.rest()
	pass(3 * time.Minute)
	secrets := m.compare()
	for range 20 { // some watches may be about to be replaced
		if m.secrets.Status().OpenWatches == secrets {
			return
		}
		pass(time.Second)
	}
	m.Expect(m.secrets.Status().OpenWatches).To(Equal(secrets))
}

// compare compares with the model, and returns how many Secrets are referred
// to.
func (m *chainWorld) compare() int {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	in := func(all map[string]string) func(reconcile.Key) (string, bool) {
		return func(key reconcile.Key) (string, bool) { v, ok := all[key.String()]; return v, ok }
	}
	links, secrets := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for owner, link := range m.now.owners {
		if !m.here[owner[0]] {
			continue
		}
		if want := m.line(link, in(m.now.links), in(m.now.secrets)); m.shown[owner] != want {
			m.t.Fatalf("%s was reconciled last with %q, and it is %q", owner, m.shown[owner], want)
		}
		namespace, name, _ := strings.Cut(link, "/")
		links[types.NamespacedName{Namespace: namespace, Name: name}] = true
		for name := range strings.FieldsSeq(m.now.links[link]) {
			secrets[types.NamespacedName{Namespace: namespace, Name: name}] = true
		}
	}
	for owner, line := range m.shown {
		if _, ok := m.now.owners[owner]; !ok && line != "deleted" {
			m.t.Fatalf("%s is deleted, and was reconciled last with %q", owner, line)
		}
	}
	for n := range chainNamespaces {
		for i := range 4 {
			link := types.NamespacedName{Namespace: fmt.Sprint("n", n), Name: fmt.Sprint("l", i)}
			m.Expect(m.links.Parts().Holds(link)).To(Equal(links[link]), "is link %s held", link)
			secret := types.NamespacedName{Namespace: link.Namespace, Name: fmt.Sprint("s", i)}
			m.Expect(m.secrets.Parts().Holds(secret)).To(Equal(secrets[secret]), "is Secret %s held", secret)
		}
	}
	m.Expect(m.c.Stats().Failing).To(BeZero())
	return len(secrets)
}

func TestKeysAreReconciledWithWhatAPlainModelSaysThatTheyReferTo(t *testing.T) {
	for seed := *referenceSeed; seed < *referenceSeed+3; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inReferring(t, func(w *referring) {
				for n := range chainNamespaces {
					_, err := w.admin.CoreV1().Namespaces().Create(t.Context(),
						&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}, metav1.CreateOptions{})
					w.Expect(err).NotTo(HaveOccurred())
				}
				m := newChainWorld(w, seed)
				for n := range *referenceSteps / 3 {
					m.step()
					if n%100 == 99 {
						m.check()
					}
				}
				m.check()
			})
		})
	}
}
