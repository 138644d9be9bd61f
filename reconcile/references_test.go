package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// referring is a simulated server, and a controller of ConfigMaps in namespace
// d that refer to Secrets: the data "secret" is namespace/name or name.
type referring struct {
	*WithT

	t       *testing.T
	server  *apisim.Server
	admin   kubernetes.Interface
	cluster *cluster.Cluster
	maps    *informer.Informer[*configMap]
	secrets *informer.References[*corev1.Secret]
	c       *reconcile.Controller

	mu     sync.Mutex
	denied map[string]bool
	isDown bool // the operator gets no answer
	runs   []string
}

func inReferring(t *testing.T, f func(w *referring)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &referring{WithT: NewWithT(t), t: t, denied: map[string]bool{}}
		var err error
		w.server, err = apisim.New(nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.server.Deny(func(c apisim.Call) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.isDown && c.Client == "operator" {
				return apierrors.NewServiceUnavailable("the server is being restored")
			}
			if c.Resource.Resource == "secrets" && w.denied[c.Namespace] {
				return apierrors.NewForbidden(c.Resource.GroupResource(), "", errors.New("no Role"))
			}
			return nil
		})
		w.admin, err = kubernetes.NewForConfig(w.server.Admin())
		w.Expect(err).NotTo(HaveOccurred())
		w.cluster, err = cluster.New(w.server.Config("operator"), nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.maps = informer.For(w.cluster.Client().CoreV1().ConfigMaps("d"), nil)
		w.secrets = informer.Referenced(w.cluster.Client().CoreV1().Secrets, nil)
		f(w)
	})
}

// secretsOf returns the keys in the data "secret" of a ConfigMap.
func secretsOf(m *configMap) (keys []reconcile.Key) {
	for name := range strings.FieldsSeq(m.Data["secret"]) {
		key := reconcile.Key{Namespace: m.Namespace, Name: name}
		if namespace, other, ok := strings.Cut(name, "/"); ok {
			key = reconcile.Key{Namespace: namespace, Name: other}
		}
		keys = append(keys, key)
	}
	return keys
}

// run runs a controller that notes what it reads, until stop is called.
func (w *referring) run(o *reconcile.Options, more ...func(context.Context, request)) (stop func() error) {
	if o == nil {
		o = &reconcile.Options{}
	}
	if o.Triggers == nil {
		o.Triggers = []reconcile.Trigger{reconcile.References(w.secrets, secretsOf)}
	}
	var err error
	w.c, err = reconcile.New("test", w.maps, reconcile.Func[*configMap](
		func(ctx context.Context, r request) (reconcile.Result, error) {
			line := r.Key.Name
			if m, ok := r.Object(); ok {
				for _, key := range secretsOf(m) {
					value := "none"
					if s, ok := w.secrets.Get(key); ok {
						value = string(s.Data["v"])
					}
					line += fmt.Sprintf(" %s=%s", key.Name, value)
				}
			} else {
				line += " deleted"
			}
			w.mu.Lock()
			w.runs = append(w.runs, line)
			w.mu.Unlock()
			for _, f := range more {
				f(ctx, r)
			}
			return nothing, nil
		}), o)
	w.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(logr.NewContext(w.t.Context(), logr.Discard()))
	ended := make(chan error, 1)
	go func() { ended <- w.c.Run(ctx) }()
	var once sync.Once
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case err = <-ended:
			case <-time.After(time.Hour):
				panic("the controller has not stopped within an hour, at " + w.t.Name())
			}
		})
		return err
	}
	w.t.Cleanup(func() { _ = stop() })
	w.rest()
	return stop
}

// rest lets everything settle.
func (w *referring) rest() {
	synctest.Wait()
	for range 3 {
		pass(2 * time.Second)
	}
}

// ran returns what was reconciled since the last call, each line once.
func (w *referring) ran() []string {
	w.rest()
	w.mu.Lock()
	defer w.mu.Unlock()
	runs := w.runs
	w.runs = nil
	return distinct(runs)
}

// distinct returns each line once, in the order of the lines. A change that is
// delivered while a worker looks a key up reconciles the key a second time,
// which is harmless and depends on the moment.
func distinct(lines []string) (found []string) {
	for _, line := range lines {
		if !slices.Contains(found, line) {
			found = append(found, line)
		}
	}
	return found
}

func (w *referring) deny(namespace string, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denied[namespace] = is
}

func (w *referring) putMap(name, secrets string) { w.put("d", name, "secret", secrets) }

// put creates or updates a ConfigMap with one value.
func (w *referring) put(namespace, name, field, value string) {
	m := configMapNamed(name)
	m.Namespace, m.Data = namespace, map[string]string{field: value}
	_, err := w.admin.CoreV1().ConfigMaps(namespace).Create(context.Background(), m, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = w.admin.CoreV1().ConfigMaps(namespace).Update(context.Background(), m, metav1.UpdateOptions{})
	}
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *referring) putSecret(namespace, name, value string) {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"v": []byte(value)},
	}
	_, err := w.admin.CoreV1().Secrets(namespace).Create(context.Background(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = w.admin.CoreV1().Secrets(namespace).Update(context.Background(), s, metav1.UpdateOptions{})
	}
	w.Expect(err).NotTo(HaveOccurred())
}

func TestAChangeOfAnObjectReconcilesTheKeysThatReferToIt(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a", "one other/two")
		w.putMap("b", "one")
		w.putMap("c", "")
		w.putSecret("d", "one", "1")
		w.putSecret("d", "foreign", "1")
		w.run(nil)
		w.Expect(w.ran()).To(ConsistOf("a one=1 two=none", "b one=1", "c"))
		w.putSecret("d", "one", "2")
		w.Expect(w.ran()).To(ConsistOf("a one=2 two=none", "b one=2"))
		w.putSecret("other", "two", "1")
		w.Expect(w.ran()).To(ConsistOf("a one=2 two=1"))
		w.putSecret("d", "foreign", "2")
		w.Expect(w.ran()).To(BeEmpty())
		w.Expect(w.admin.CoreV1().Secrets("d").Delete(t.Context(), "one", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.ran()).To(ConsistOf("a one=none two=1", "b one=none"))
		w.putMap("b", "foreign")
		w.Expect(w.ran()).To(Equal([]string{"b foreign=2"}), "once, when it is known")
		w.Expect(w.admin.CoreV1().ConfigMaps("d").Delete(t.Context(), "b", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.ran()).To(Equal([]string{"b deleted"}))
		pass(2 * time.Minute)
		w.Expect(w.secrets.Status().References).To(Equal(2))
		w.putSecret("d", "foreign", "3")
		w.Expect(w.ran()).To(BeEmpty())
	})
}

func TestKeysWhoseReferencesAreForbiddenFailAndNoOthersAndHeal(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.deny("tenant", true)
		w.putMap("a", "tenant/x")
		w.putMap("b", "one")
		w.putMap("both", "one tenant/x")
		stop := w.run(nil)
		w.Expect(w.ran()).To(ConsistOf("b one=none"))
		failing := func() (keys []string) {
			for _, k := range w.c.Status(10).Keys {
				if k.Failure != "" {
					keys = append(keys, k.Key.Name+": "+k.Failure)
				}
			}
			return keys
		}
		w.Expect(failing()).To(ConsistOf(
			And(HavePrefix(`a: reading what the object refers to: watching Secret "tenant/x": `), ContainSubstring("no Role"),
				HaveSuffix("(the verbs list and watch on this name are needed)")),
			HavePrefix("both: ")))
		w.Expect(w.c.References(key("both"))).To(ConsistOf(
			And(HaveField("Key.Name", "one"), HaveField("State", "does not exist")),
			And(HaveField("Key.Name", "x"), HaveField("State", ContainSubstring("no Role")))))
		pass(time.Hour)
		w.putSecret("d", "one", "1")
		w.putSecret("tenant", "x", "1")
		w.Expect(w.ran()).To(ConsistOf("b one=1"))
		w.deny("tenant", false)
		pass(time.Minute)
		w.Expect(w.ran()).To(ConsistOf("a x=1", "both one=1 x=1"))
		w.Expect(failing()).To(BeEmpty())
		w.deny("tenant", true)
		w.server.DropWatches("operator", "secrets")
		pass(time.Minute)
		w.putMap("a", "tenant/x ")
		w.Expect(w.ran()).To(BeEmpty())
		w.Expect(failing()).To(ConsistOf(HavePrefix("a: ")))
		w.deny("tenant", false)
		pass(time.Minute)
		w.Expect(w.ran()).To(ConsistOf("a x=1"))
		w.Expect(stop()).To(Succeed())
		w.Expect(w.secrets.Status().References).To(BeZero())
	})
}

func TestReferencesFormChains(t *testing.T) {
	inReferring(t, func(w *referring) {
		// The ConfigMaps d/a and d/b refer to ConfigMaps in namespace chain,
		// and those to Secrets.
		links := informer.Referenced(w.cluster.Client().CoreV1().ConfigMaps, &informer.Options{Name: "links"})
		link := func(m *configMap) []reconcile.Key { return []reconcile.Key{{Namespace: "chain", Name: m.Data["link"]}} }
		through := func(m *configMap) []reconcile.Key {
			if l, ok := links.Get(link(m)[0]); ok {
				return secretsOf(l)
			}
			return nil
		}
		put := w.put
		var seen []string
		w.run(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(links, link), reconcile.References(w.secrets, through),
		}}, func(_ context.Context, r request) {
			m, _ := r.Object()
			line := r.Key.Name
			for _, key := range through(m) {
				s, ok := w.secrets.Get(key)
				line += fmt.Sprint(" ", key.Name, " ", ok)
				if ok {
					line += " " + string(s.Data["v"])
				}
			}
			w.mu.Lock()
			seen = append(seen, line)
			w.mu.Unlock()
		})
		read := func() []string {
			w.ran()
			w.mu.Lock()
			defer w.mu.Unlock()
			lines := seen
			seen = nil
			return distinct(lines)
		}
		put("chain", "l", "secret", "one")
		put("d", "a", "link", "l")
		w.Expect(read()).To(Equal([]string{"a one false"}))
		w.putSecret("chain", "one", "1")
		w.putSecret("chain", "two", "2")
		w.Expect(read()).To(Equal([]string{"a one true 1"}))
		put("chain", "l", "secret", "two")
		w.Expect(read()).To(Equal([]string{"a two true 2"}))
		put("d", "a", "link", "none")
		w.Expect(read()).To(Equal([]string{"a"}))
		pass(2 * time.Minute)
		w.Expect(w.secrets.Status().References).To(BeZero())
		w.Expect(links.Status().References).To(Equal(1))
	})
}

func TestAReconcileSeesWhatItHasWrittenToAnObjectThatItRefersTo(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a", "one")
		w.putSecret("d", "one", "0")
		const rounds = 5
		n := 0
		w.run(nil, func(ctx context.Context, _ request) {
			s, ok := w.secrets.Get(key("one"))
			w.Expect(ok).To(BeTrue())
			w.Expect(string(s.Data["v"])).To(Equal(fmt.Sprint(n)), "the last write")
			if n == rounds {
				return
			}
			n++
			s = s.DeepCopy()
			s.Data["v"] = []byte(fmt.Sprint(n))
			_, err := w.cluster.Client().CoreV1().Secrets("d").Update(ctx, s, metav1.UpdateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		})
		w.rest()
		pass(time.Minute)
		w.Expect(n).To(Equal(rounds))
		w.Expect(w.c.Stats().Overdue).To(BeZero())
		w.Expect(w.c.Stats().HeldBack).To(BeNumerically(">=", 1))
	})
}

func TestAFunctionOfReferencesThatPanicsConcernsItsKeyOnly(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a", "panic")
		w.putMap("b", "one")
		w.run(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(w.secrets, func(m *configMap) []reconcile.Key {
				if m.Data["secret"] == "panic" {
					panic("no")
				}
				return secretsOf(m)
			}),
		}})
		w.Expect(w.ran()).To(ConsistOf("b one=none"))
		w.Expect(w.c.Stats().Failing).To(Equal(1))
		w.putMap("a", "one")
		w.Expect(w.ran()).To(ConsistOf("a one=none"))
	})
}

func TestImpossibleReferencesAreErrorsOfTheirKeys(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a", "/x")
		w.putMap("b", "one")
		w.run(nil)
		w.Expect(w.ran()).To(ConsistOf("b one=none"))
		w.Expect(w.c.Status(1).Keys).To(ContainElement(HaveField("Failure", ContainSubstring(`Secret "x" has no namespace`))))
	})
}

// numbers are ConfigMaps as a program with a wrong Go type sees them.
type numbers struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Data map[string]int `json:"data"`
}

func (n *numbers) DeepCopyObject() runtime.Object { c := *n; return &c }

type numbersList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []numbers `json:"items"`
}

func (n *numbersList) DeepCopyObject() runtime.Object { c := *n; return &c }

func TestObjectsThatGoCannotDecodeAreErrorsOfTheKeysThatReferToThem(t *testing.T) {
	inReferring(t, func(w *referring) {
		kind, err := cluster.NewKind[*numbers, *numbersList](w.cluster,
			schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, func(s *runtime.Scheme) error {
				version := schema.GroupVersion{Version: "v1"}
				s.AddKnownTypeWithName(version.WithKind("ConfigMap"), &numbers{})
				s.AddKnownTypeWithName(version.WithKind("ConfigMapList"), &numbersList{})
				metav1.AddToGroupVersion(s, version)
				return nil
			})
		w.Expect(err).NotTo(HaveOccurred())
		all := informer.Referenced(kind.In, nil)
		put := func(name string, data map[string]string) {
			_, err := w.admin.CoreV1().ConfigMaps("other").Create(t.Context(),
				&configMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		}
		put("bad", map[string]string{"v": "word"})
		put("one", nil)
		w.putMap("a", "other/bad")
		w.putMap("b", "other/one")
		w.run(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.References(all, secretsOf)}})
		w.Expect(w.ran()).To(ConsistOf("b one=none"))
		w.Expect(w.c.Status(1).Keys).To(ContainElement(HaveField("Failure",
			ContainSubstring(`"other/bad": data[v]: this string cannot be decoded as int`))))
		pass(time.Hour)
		w.Expect(w.admin.CoreV1().ConfigMaps("other").Delete(t.Context(), "bad", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.ran()).To(ConsistOf("a bad=none"))
		w.Expect(w.c.Stats().Failing).To(BeZero())
	})
}

func TestObjectsOfAllClientsAndWithoutNamespacesCanBeReferredTo(t *testing.T) {
	inReferring(t, func(w *referring) {
		config := w.server.Config("operator")
		untyped, err := dynamic.NewForConfig(config)
		w.Expect(err).NotTo(HaveOccurred())
		slim, err := metadata.NewForConfig(config)
		w.Expect(err).NotTo(HaveOccurred())
		resource := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
		dynamics := informer.Referenced(func(ns string) dynamicClient {
			return informer.Untyped(untyped.Resource(resource).Namespace(ns))
		}, &informer.Options{Name: "dynamic"})
		metas := informer.Referenced(func(ns string) metadataClient {
			return informer.Untyped(slim.Resource(resource).Namespace(ns))
		}, &informer.Options{Name: "metadata"})
		kind, err := cluster.NewKind[*corev1.Secret, *corev1.SecretList](w.cluster, resource, corev1.AddToScheme)
		w.Expect(err).NotTo(HaveOccurred())
		kinds := informer.Referenced(kind.In, &informer.Options{Name: "kind"})
		nodes := informer.Referenced(func(string) nodeClient { return w.cluster.Client().CoreV1().Nodes() }, nil)
		var seen []string
		w.putMap("a", "one")
		w.putSecret("d", "one", "1")
		w.run(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(dynamics, secretsOf), reconcile.References(metas, secretsOf),
			reconcile.References(kinds, secretsOf),
			reconcile.References(nodes, func(*configMap) []reconcile.Key { return []reconcile.Key{{Name: "node-1"}} }),
		}}, func(context.Context, request) {
			_, a := dynamics.Get(key("one"))
			_, b := metas.Get(key("one"))
			_, c := kinds.Get(key("one"))
			_, d := nodes.Get(reconcile.Key{Name: "node-1"})
			w.mu.Lock()
			defer w.mu.Unlock()
			seen = append(seen, fmt.Sprint(a, b, c, d))
		})
		w.ran()
		w.Expect(seen).To(HaveEach("true true true false"))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		_, err = w.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.ran()
		w.Expect(seen[len(seen)-1]).To(Equal("true true true true"))
	})
}

type (
	nodeClient     = informer.Client[*corev1.Node, *corev1.NodeList]
	dynamicClient  = informer.Client[*unstructured.Unstructured, *unstructured.UnstructuredList]
	metadataClient = informer.Client[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]
)

func TestReferencesOfOtherObjectsThanTheControllersAreRefused(t *testing.T) {
	inReferring(t, func(w *referring) {
		_, err := reconcile.New("test", w.maps, reconcile.Func[*configMap](
			func(context.Context, request) (reconcile.Result, error) { return nothing, nil }),
			&reconcile.Options{Triggers: []reconcile.Trigger{
				reconcile.References(w.secrets, func(*corev1.Pod) []reconcile.Key { return nil }),
				reconcile.References[*configMap](w.secrets, nil),
				reconcile.References[*configMap, *corev1.Secret](nil, secretsOf),
			}})
		w.Expect(err).To(MatchError(And(
			ContainSubstring("Triggers[0] is references: must have a function that takes the controller's own objects, *v1.ConfigMap, "+
				"and not *v1.Pod"),
			ContainSubstring("Triggers[1] is references: must have a function"),
			ContainSubstring("Triggers[2] is references: must have an informer"))))
	})
}

func TestOnlyReferencesOfThisReplicasKeysAreHeld(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a1", "one")
		w.putMap("b1", "two both")
		w.putMap("a2", "both")
		held := func() (names []string) {
			for _, name := range []string{"one", "two", "both", "three"} {
				if w.secrets.Parts().Holds(key(name)) {
					names = append(names, name)
				}
			}
			return names
		}
		p := newParts()
		stop := w.run(&reconcile.Options{Shards: p})
		w.Expect(held()).To(BeEmpty())
		p.take('a')
		w.Expect(w.ran()).To(ConsistOf("a1 one=none", "a2 both=none"))
		w.Expect(held()).To(Equal([]string{"one", "both"}))
		w.putMap("b2", "three")
		w.rest()
		w.Expect(held()).To(Equal([]string{"one", "both"}))
		p.take('b')
		w.Expect(w.ran()).To(ConsistOf("b1 two=none both=none", "b2 three=none"))
		w.Expect(held()).To(Equal([]string{"one", "two", "both", "three"}))
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		pass(2 * time.Minute)
		w.Expect(held()).To(Equal([]string{"two", "both", "three"}))
		w.putSecret("d", "both", "1")
		w.Expect(w.ran()).To(Equal([]string{"b1 two=none both=1"}))
		w.Expect(stop()).To(Succeed())
		w.Expect(held()).To(BeEmpty())
	})
}

func TestANewLeaderReconcilesWhenWhatIsReferredToIsAsNewAsTheServer(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a", "one")
		w.putSecret("d", "one", "1")
		leadership := terms{make(chan bool)}
		w.run(&reconcile.Options{Leader: leadership})
		w.Expect(w.secrets.Status().OpenWatches).To(Equal(1), "a standby is warm")
		w.Expect(w.ran()).To(BeEmpty())
		// The watch is late, and has not delivered what the last leader wrote.
		w.server.Freeze("operator", w.server.Version())
		w.putSecret("d", "one", "2")
		w.deny("d", true)
		leadership.change <- true
		w.Expect(w.ran()).To(BeEmpty(), "the server has not said how it is")
		w.deny("d", false)
		w.server.Thaw("operator")
		pass(time.Minute)
		w.Expect(w.ran()).To(And(Not(BeEmpty()), HaveEach("a one=2")))
	})
}

func TestAReferenceThatStaysUnknownIsAnErrorAfterAWhile(t *testing.T) {
	inReferring(t, func(w *referring) {
		config := w.server.Config("operator")
		var broken atomic.Bool
		broken.Store(true)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if broken.Load() && strings.Contains(r.URL.Path, "/secrets") {
					return nil, syscall.ECONNREFUSED
				}
				return next.RoundTrip(r)
			})
		})
		client, err := kubernetes.NewForConfig(config)
		w.Expect(err).NotTo(HaveOccurred())
		w.secrets = informer.Referenced(client.CoreV1().Secrets, nil)
		w.putMap("a", "one")
		w.run(nil)
		w.Expect(w.ran()).To(BeEmpty())
		w.Expect(w.c.Stats().Failing).To(BeZero(), "a server may restart")
		pass(3 * time.Minute)
		w.Expect(w.c.Status(1).Keys).To(ContainElement(HaveField("Failure", ContainSubstring("connection refused"))))
		broken.Store(false)
		pass(time.Minute)
		w.Expect(w.ran()).To(Equal([]string{"a one=none"}))
		broken.Store(true)
		w.server.DropWatches("operator", "secrets")
		pass(10 * time.Minute)
		w.putMap("a", "one ")
		w.Expect(w.ran()).To(Equal([]string{"a one=none"}), "what is known stays so while no server answers")
		w.Expect(w.secrets.Status().Problems).To(ConsistOf(HaveField("Cause", "unreachable")))
	})
}

// A key waits for the objects to which its object refers now, and not for
// earlier references.
func TestAWaitingKeyIsReconciledWhenItsReferencesAreKnown(t *testing.T) {
	inReferring(t, func(w *referring) {
		config := w.server.Config("operator")
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.RawQuery, "silent") {
					return nil, syscall.ECONNREFUSED
				}
				return next.RoundTrip(r)
			})
		})
		client, err := kubernetes.NewForConfig(config)
		w.Expect(err).NotTo(HaveOccurred())
		w.secrets = informer.Referenced(client.CoreV1().Secrets, nil)
		links := informer.Referenced(w.cluster.Client().CoreV1().ConfigMaps, &informer.Options{Name: "links"})
		through := func(m *configMap) []reconcile.Key {
			if link, ok := links.Get(linkOf(m)[0]); ok {
				return secretsOf(link)
			}
			return secretsOf(m)
		}
		w.putMap("a", "one")
		w.put("other", "link", "secret", "silent")
		w.run(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(links, linkOf), reconcile.References(w.secrets, through),
		}})
		w.Expect(w.ran()).To(Equal([]string{"a one=none"}))
		w.putMap("b", "silent")
		w.putMap("c", "silent")
		w.put("d", "e", "link", "other/link")
		w.Expect(w.ran()).To(BeEmpty())
		w.putMap("b", "one")
		w.Expect(w.ran()).To(Equal([]string{"b one=none"}))
		w.Expect(w.admin.CoreV1().ConfigMaps("d").Delete(t.Context(), "c", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.ran()).To(Equal([]string{"c deleted"}))
		w.put("other", "link", "secret", "")
		w.Expect(w.ran()).To(Equal([]string{"e"}))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
