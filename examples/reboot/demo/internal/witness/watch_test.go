package witness_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/demo/internal/witness"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

// A trial is a server whose objects a witness of the group g watches.
type trial struct {
	*WithT
	*witness.Witness

	ctx    context.Context
	core   kubernetes.Interface
	groups *api.Client
}

// watched runs f beside a witness, of whose requests before may answer some.
func watched(t *testing.T, before func(*http.Request) *http.Response, f func(w *trial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := &trial{WithT: NewWithT(t), ctx: ctx}
		version := api.GroupVersion()
		sim, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{
			{Group: version.Group, Version: version.Version, Resource: api.Resource, Kind: "RebootGroup", Status: true},
		}})
		w.Expect(err).NotTo(HaveOccurred())
		w.core = kubernetes.NewForConfigOrDie(sim.Admin())
		w.groups, err = api.NewClient(stage.Reach(sim.Admin()))
		w.Expect(err).NotTo(HaveOccurred())
		w.node("before")
		w.group("g")
		w.group("other")
		w.Witness, err = witness.New((&wiretap.Tap{Before: before}).Config(sim.Config("witness")), "g")
		w.Expect(err).NotTo(HaveOccurred())
		started, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx, func() { close(started) })
		}()
		<-started
		f(w)
		stop()
		<-ended
	})
}

func (w *trial) node(name string) {
	_, err := w.core.CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *trial) group(name string) {
	_, err := w.groups.Create(w.ctx, &api.RebootGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.RebootGroupSpec{MaxUnavailable: intstr.FromInt32(2)},
	}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *trial) patch(node, change string) {
	_, err := w.core.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// names returns the names of the nodes that the witness knows.
func (w *trial) names() (names []string) {
	synctest.Wait()
	nodes, _ := w.State()
	for name := range nodes {
		names = append(names, name)
	}
	return names
}

func TestAWitnessSeesWhatThereIsAndWhatHappens(t *testing.T) {
	watched(t, nil, func(w *trial) {
		w.Expect(w.names()).To(ConsistOf("before"))
		_, ledger := w.State()
		w.Expect(ledger).To(Equal(witness.Ledger{Name: "g", Max: 2}))
		w.node("later")
		w.Expect(w.names()).To(ConsistOf("before", "later"))
		w.patch("later", `{"spec":{"unschedulable":true}}`)
		synctest.Wait()
		nodes, _ := w.State()
		w.Expect(nodes["later"].Unschedulable).To(BeTrue())
		w.Expect(w.core.CoreV1().Nodes().Delete(w.ctx, "before", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.names()).To(ConsistOf("later"))
		_, err := w.groups.Patch(w.ctx, "g", types.MergePatchType,
			[]byte(`{"status":{"slots":[{"node":"later","nodeUID":"u","epoch":1}]}}`), metav1.PatchOptions{}, "status")
		w.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		_, ledger = w.State()
		w.Expect(ledger.Slots).To(Equal([]witness.Slot{{Node: "later", UID: "u"}}))
		violations, events, err := w.Verdict()
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(violations).To(BeEmpty())
		w.Expect(events).To(Equal(6), "a node and a group, three changes of nodes, one of the group; none of the other group")
	})
}

// The last second does not count yet: earlier events may be on their way in the
// other watch.
func TestAViolationIsFoundOnceItIsCertain(t *testing.T) {
	watched(t, nil, func(w *trial) {
		w.patch("before", `{"metadata":{"annotations":{"reboot.homeostat.dev/reboot-now":"{\"request\":\"r\",\"epoch\":1}"}}}`)
		synctest.Wait()
		w.Expect(w.Violations()).To(BeEmpty())
		violations, _, err := w.Verdict()
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(violations).To(ConsistOf(HaveField("Invariant", "I2")))
		w.Expect(violations[0].String()).To(MatchRegexp(`^I2 at resourceVersion \d+: node before was told to reboot, or is rebooting, without a slot$`))
		<-time.After(1001 * time.Millisecond)
		w.Expect(w.Violations()).To(Equal(violations))
	})
}

func TestAWitnessThatHasMissedEventsSaysSo(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	for name, refuse := range map[string]func(r *http.Request) *http.Response{
		"at the start of a watch": func(r *http.Request) *http.Response { return wiretap.Refuse(r, expired) },
		"during a watch": func(r *http.Request) *http.Response {
			return wiretap.Answer(r, http.StatusOK, []byte(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1",`+
				`"status":"Failure","reason":"Expired","message":"too old","code":410}}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(r *http.Request) *http.Response {
				if r.URL.Path == "/api/v1/nodes" && wiretap.IsWatch(r) {
					return refuse(r)
				}
				return nil
			}, func(w *trial) {
				<-time.After(time.Second)
				_, _, err := w.Verdict()
				w.Expect(err).To(MatchError(ContainSubstring("the watch missed events")))
			})
		})
	}
}

// Failed requests are retried, without a gap.
func TestAWitnessOutlivesFailures(t *testing.T) {
	failures := map[string]int{}
	watched(t, func(r *http.Request) *http.Response {
		if r.URL.Path != "/api/v1/nodes" {
			return nil
		}
		kind := "list"
		if wiretap.IsWatch(r) {
			kind = "watch"
		}
		if failures[kind]++; failures[kind] > 2 {
			return nil
		}
		return wiretap.Refuse(r, apierrors.NewServiceUnavailable("not now"))
	}, func(w *trial) {
		w.node("later")
		<-time.After(10 * time.Second)
		w.Expect(w.names()).To(ConsistOf("before", "later"))
		_, _, err := w.Verdict()
		w.Expect(err).NotTo(HaveOccurred())
	})
}

func TestAWitnessThatCannotReadAnObjectSaysSo(t *testing.T) {
	watched(t, nil, func(w *trial) {
		w.patch("before", `{"metadata":{"annotations":{"reboot.homeostat.dev/last-reboot":"garbage"}}}`)
		synctest.Wait()
		_, _, err := w.Verdict()
		w.Expect(err).To(MatchError(ContainSubstring(`reading last-reboot of node "before"`)))
	})
}

func TestAWitnessSaysWhyItIsNotMade(t *testing.T) {
	_, err := witness.New(&rest.Config{Host: "http://[::1"}, "g")
	NewWithT(t).Expect(err).To(MatchError(HavePrefix("creating the client that watches the demo: ")))
}
