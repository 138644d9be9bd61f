package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/internal/apisim"
	world "github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/reconcile"
)

// A stage is a cluster in a bubble, with a controller in it.
type stage struct {
	*gomega.WithT
	ctx    context.Context
	sim    *apisim.Server
	core   kubernetes.Interface // of the administrator
	groups *window
	events *notebook
	// sees all requests except requests for core kinds, as in a tap
	before atomic.Pointer[func(*http.Request) *http.Response]

	controller *controller.Controller

	mu    sync.Mutex // guards lines
	lines []string   // of the log
}

// A window is a client for groups whose watches show nothing while it is shut,
// that refuses writes, and that counts the live reads.
type window struct {
	*api.Client
	shut, refuses atomic.Bool
	reads         atomic.Int32
}

var errRefused = errors.New("not now")

func (w *window) Create(ctx context.Context, g *api.RebootGroup, o metav1.CreateOptions) (*api.RebootGroup, error) {
	if w.refuses.Load() {
		return nil, errRefused
	}
	return w.Client.Create(ctx, g, o)
}

func (w *window) Patch(
	ctx context.Context, name string, as types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (*api.RebootGroup, error) {
	if w.refuses.Load() {
		return nil, errRefused
	}
	return w.Client.Patch(ctx, name, as, data, o, subresources...)
}

func (w *window) Get(ctx context.Context, name string, o metav1.GetOptions) (*api.RebootGroup, error) {
	w.reads.Add(1)
	return w.Client.Get(ctx, name, o)
}

func (w *window) List(ctx context.Context, o metav1.ListOptions) (*api.RebootGroupList, error) {
	w.reads.Add(1)
	return w.Client.List(ctx, o)
}

func (w *window) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	inner, err := w.Client.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	seen := make(chan watch.Event)
	outer := watch.NewProxyWatcher(seen)
	go func() {
		defer close(seen)
		defer inner.Stop()
		for {
			select {
			case e, ok := <-inner.ResultChan():
				if !ok || !w.show(e, seen, outer.StopChan()) {
					return
				}
			case <-outer.StopChan():
				return
			}
		}
	}()
	return outer, nil
}

func (w *window) show(e watch.Event, seen chan<- watch.Event, stop <-chan struct{}) bool {
	if w.shut.Load() {
		return true
	}
	select {
	case seen <- e:
		return true
	case <-stop:
		return false
	}
}

// A notebook keeps the reasons of events.
type notebook struct {
	mu      sync.Mutex // guards reasons
	reasons []string
}

func (n *notebook) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reasons = append(n.reasons, reason)
}

func (n *notebook) count(reason string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, r := range n.reasons {
		if r == reason {
			count++
		}
	}
	return count
}

// play runs f together with a controller, in virtual time.
func play(t *testing.T, f func(s *stage)) { playAs(t, nil, f) }

// playAs is play with a controller that works only while it leads.
func playAs(t *testing.T, leader reconcile.Leader, f func(s *stage)) {
	playWith(t, &controller.Options{Leader: leader}, f)
}

// playWith is play with a controller that has these options, and events
// besides.
func playWith(t *testing.T, o *controller.Options, f func(s *stage)) {
	playOn(t, o, func(w *window) controller.GroupClient { return w }, f)
}

// playOn is playWith with a controller that reads and writes groups with a
// client that is made of the stage's.
func playOn(t *testing.T, o *controller.Options, groups func(w *window) controller.GroupClient, f func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{WithT: gomega.NewWithT(t), events: &notebook{}}
		ctx, stop := context.WithCancel(logr.NewContext(t.Context(), funcr.New(s.log, funcr.Options{})))
		s.ctx = ctx
		version := api.GroupVersion()
		var err error
		s.sim, err = apisim.New(&apisim.Options{ManagedFields: true, Resources: []apisim.Resource{
			{Group: version.Group, Version: version.Version, Resource: api.Resource, Kind: "RebootGroup", Status: true},
		}})
		s.Expect(err).NotTo(gomega.HaveOccurred())
		tap := &wiretap.Tap{Before: func(r *http.Request) *http.Response {
			if before := s.before.Load(); before != nil {
				return (*before)(r)
			}
			return nil
		}}
		s.core, err = kubernetes.NewForConfig(s.sim.Admin())
		s.Expect(err).NotTo(gomega.HaveOccurred())
		reached := world.Reach(tap.Config(s.sim.Config("controller")))
		client, err := api.NewClient(reached)
		s.Expect(err).NotTo(gomega.HaveOccurred())
		s.groups = &window{Client: client}
		options := *o
		options.Events = s.events
		c, err := controller.New(reached.Client().CoreV1().Nodes(), groups(s.groups), &options)
		s.Expect(err).NotTo(gomega.HaveOccurred())
		s.controller = c
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		f(s)
		stop()
		s.Expect(<-ended).To(gomega.Succeed())
	})
}

func (s *stage) log(_, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

// logged returns the lines with that text.
func (s *stage) logged(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.lines), func(line string) bool { return !strings.Contains(line, text) })
}

// pass lets time pass, and then waits until everything is at rest.
func (s *stage) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func (s *stage) node(name string, annotations map[string]string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"name": name}, Annotations: annotations,
	}}
	_, err := s.core.CoreV1().Nodes().Create(s.ctx, node, metav1.CreateOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	const ready = `{"status":{"nodeInfo":{"bootID":"b1"},"conditions":[{"type":"Ready","status":"True"}]}}`
	_, err = s.core.CoreV1().Nodes().Patch(s.ctx, name, types.StrategicMergePatchType, []byte(ready),
		metav1.PatchOptions{}, "status")
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

func (s *stage) asking(names ...string) {
	for _, name := range names {
		s.node(name, map[string]string{protocol.Needed: "r"})
	}
}

func (s *stage) group(name string, limit intstr.IntOrString, selector *metav1.LabelSelector) {
	s.groupOf(name, api.RebootGroupSpec{MaxUnavailable: limit, NodeSelector: selector})
}

func (s *stage) groupOf(name string, spec api.RebootGroupSpec) {
	_, err := s.groups.Create(s.ctx, &api.RebootGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}, metav1.CreateOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

func (s *stage) finalizers(group string) []string {
	g, err := s.groups.Client.Get(s.ctx, group, metav1.GetOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	return g.Finalizers
}

// change sets annotations, or removes those that are nil.
func (s *stage) change(node string, annotations map[string]any) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = s.core.CoreV1().Nodes().Patch(s.ctx, node, types.MergePatchType, data, metav1.PatchOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

func (s *stage) status(name string) api.RebootGroupStatus {
	g, err := s.groups.Get(s.ctx, name, metav1.GetOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	return g.Status
}

// condition returns a condition as "status reason message".
func (s *stage) condition(group, kind string) string {
	c := meta.FindStatusCondition(s.status(group).Conditions, kind)
	if c == nil {
		return "none"
	}
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

func (s *stage) holders(group string) []string {
	var names []string
	for _, slot := range s.status(group).Slots {
		names = append(names, slot.Node)
	}
	slices.Sort(names)
	return names
}

func (s *stage) state(node string) protocol.State {
	n, err := s.core.CoreV1().Nodes().Get(s.ctx, node, metav1.GetOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	return protocol.Read(n)
}

func (s *stage) ask(node string) {
	const needed = `{"metadata":{"annotations":{"reboot.homeostat.dev/reboot-needed":""}}}`
	_, err := s.core.CoreV1().Nodes().Patch(s.ctx, node, types.MergePatchType, []byte(needed), metav1.PatchOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

// label gives a node another name to be selected by.
func (s *stage) label(node, value string) {
	s.patch(node, `{"metadata":{"labels":{"name":"`+value+`"}}}`)
}

// boot is the kubelet's report of a boot.
func (s *stage) boot(node, id string) {
	s.patch(node, `{"status":{"nodeInfo":{"bootID":"`+id+`"}}}`, "status")
}

func (s *stage) patch(node, change string, subresource ...string) {
	_, err := s.core.CoreV1().Nodes().Patch(s.ctx, node, types.MergePatchType, []byte(change), metav1.PatchOptions{}, subresource...)
	s.Expect(err).NotTo(gomega.HaveOccurred())
}
