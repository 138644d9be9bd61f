package controller_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

// Where the requests go.
const (
	groups = "/apis/reboot.homeostat.dev/v1alpha1/rebootgroups"
	nodes  = "/api/v1/nodes"
)

// once calls do at the next request of that kind, before the server gets it. It
// returns a function that reports whether it has come.
func (s *stage) once(method, path string, do func(*http.Request) *http.Response) (came func() bool) {
	seen := make(chan struct{})
	before := wiretap.Once(method, path, func(r *http.Request) *http.Response {
		close(seen)
		return do(r)
	})
	s.before.Store(&before)
	return func() bool {
		select {
		case <-seen:
			return true
		default:
			return false
		}
	}
}

// meanwhile lets another client do something at the next request of that kind.
func (s *stage) meanwhile(method, path string, do func()) (came func() bool) {
	return s.once(method, path, func(*http.Request) *http.Response {
		do()
		return nil
	})
}

// groupPatch is the change of a group by another client.
func (s *stage) groupPatch(name, change string, subresource ...string) {
	_, err := s.groups.Patch(s.ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{}, subresource...)
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

func (s *stage) granted(node string) bool { return s.state(node).Now != nil }

func (s *stage) exists(group string) bool {
	_, err := s.groups.Get(s.ctx, group, metav1.GetOptions{})
	s.Expect(err).To(gomega.Or(gomega.BeNil(), gomega.Satisfy(apierrors.IsNotFound)))
	return err == nil
}

// No event follows a request that failed: only its error makes the controller
// try again.
func TestARequestThatFailsOnceOnlyDelays(t *testing.T) {
	grant := func(s *stage) { s.ask("n1") }
	isGranted := func(s *stage) bool { return s.granted("n1") }
	for name, c := range map[string]struct {
		without      bool // the group g
		prepare      func(s *stage)
		method, path string
		act          func(s *stage)
		goal         func(s *stage) bool
	}{
		"the groups, for a reservation": {method: http.MethodGet, path: groups, act: grant, goal: isGranted},
		"the nodes":                     {method: http.MethodGet, path: nodes, act: grant, goal: isGranted},
		"the finalizer":                 {method: http.MethodPatch, path: groups + "/g", act: grant, goal: isGranted},
		"a reservation":                 {method: http.MethodPatch, path: groups + "/g/status", act: grant, goal: isGranted},
		"the node, for a grant":         {method: http.MethodGet, path: nodes + "/n1", act: grant, goal: isGranted},
		"a grant":                       {method: http.MethodPatch, path: nodes + "/n1", act: grant, goal: isGranted},
		"the groups, for the built-in":  {without: true, method: http.MethodGet, path: groups, act: grant, goal: isGranted},
		"the node, for the built-in":    {without: true, method: http.MethodGet, path: nodes + "/n1", act: grant, goal: isGranted},
		"the built-in group":            {without: true, method: http.MethodPost, path: groups, act: grant, goal: isGranted},
		"the groups, for a step": {
			prepare: grant, method: http.MethodGet, path: groups,
			act:  func(s *stage) { s.change("n1", map[string]any{protocol.Paused: "true"}) },
			goal: func(s *stage) bool { return len(s.holders("g")) == 0 },
		},
		"a revocation": {
			prepare: grant, method: http.MethodPatch, path: nodes + "/n1",
			act:  func(s *stage) { s.change("n1", map[string]any{protocol.Paused: "true"}) },
			goal: func(s *stage) bool { return s.state("n1").Needed != nil && len(s.holders("g")) == 0 },
		},
		"a release": {
			prepare: grant, method: http.MethodPatch, path: groups + "/g/status",
			act: func(s *stage) {
				s.Expect(s.core.CoreV1().Nodes().Delete(s.ctx, "n1", metav1.DeleteOptions{})).To(gomega.Succeed())
			},
			goal: func(s *stage) bool { return len(s.holders("g")) == 0 },
		},
		"the last finalizer": {
			prepare: func(s *stage) {
				s.ask("n1")
				s.pass(time.Minute)
				s.Expect(s.core.CoreV1().Nodes().Delete(s.ctx, "n1", metav1.DeleteOptions{})).To(gomega.Succeed())
			},
			method: http.MethodPatch, path: groups + "/g",
			act: func(s *stage) {
				s.Expect(s.groups.Delete(s.ctx, "g", metav1.DeleteOptions{})).To(gomega.Succeed())
			},
			goal: func(s *stage) bool { return !s.exists("g") },
		},
		"a report": {
			method: http.MethodPatch, path: groups + "/g/status",
			act:  func(s *stage) { s.groupPatch("g", `{"spec":{"maxUnavailable":0}}`) },
			goal: func(s *stage) bool { return s.status("g").ObservedGeneration == 2 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *stage) {
				if !c.without {
					s.group("g", intstr.FromInt32(1), nil)
				}
				s.node("n1", nil)
				if c.prepare != nil {
					c.prepare(s)
				}
				s.pass(time.Minute)
				came := s.once(c.method, c.path, func(r *http.Request) *http.Response {
					return wiretap.Refuse(r, apierrors.NewInternalError(errors.New("try again")))
				})
				c.act(s)
				s.pass(time.Minute)
				s.Expect(came()).To(gomega.BeTrue())
				s.Expect(c.goal(s)).To(gomega.BeTrue())
			})
		})
	}
}

// Each write replaces the state that was read: a write of another client in
// between is neither undone nor overlooked.
func TestWhatAnotherClientWritesMeanwhileStands(t *testing.T) {
	const theirs = "example.com/theirs"
	for name, c := range map[string]struct {
		prepare      func(s *stage)
		method, path string
		meanwhile    func(s *stage)
		act          func(s *stage)
		check        func(s *stage)
	}{
		"a slot, during a reservation": {
			prepare: func(s *stage) { s.node("n2", nil) },
			method:  http.MethodPatch, path: groups + "/g/status",
			meanwhile: func(s *stage) {
				n, err := s.core.CoreV1().Nodes().Get(s.ctx, "n2", metav1.GetOptions{})
				s.Expect(err).NotTo(gomega.HaveOccurred())
				s.groupPatch("g", `{"status":{"slots":[{"node":"n2","nodeUID":"`+string(n.UID)+`","epoch":1}]}}`, "status")
				s.change("n2", map[string]any{protocol.InProgress: `{"request":"r","epoch":1,"bootID":"b1"}`})
			},
			check: func(s *stage) {
				s.Expect(s.holders("g")).To(gomega.Equal([]string{"n2"}))
				s.Expect(s.granted("n1")).To(gomega.BeFalse())
			},
		},
		"a withdrawal, during a grant": {
			method: http.MethodPatch, path: nodes + "/n1",
			meanwhile: func(s *stage) { s.change("n1", map[string]any{protocol.Needed: nil}) },
			check: func(s *stage) {
				s.Expect(s.granted("n1")).To(gomega.BeFalse())
				s.Expect(s.holders("g")).To(gomega.BeEmpty())
			},
		},
		"a finalizer, while ours is added": {
			method: http.MethodPatch, path: groups + "/g",
			meanwhile: func(s *stage) { s.groupPatch("g", `{"metadata":{"finalizers":["`+theirs+`"]}}`) },
			check: func(s *stage) {
				s.Expect(s.finalizers("g")).To(gomega.ConsistOf(theirs, "reboot.homeostat.dev/ledger"))
				s.Expect(s.granted("n1")).To(gomega.BeTrue())
			},
		},
		"a finalizer, while ours is removed": {
			prepare: func(s *stage) {
				s.asking("n2")
				s.pass(time.Minute)
				s.Expect(s.core.CoreV1().Nodes().Delete(s.ctx, "n2", metav1.DeleteOptions{})).To(gomega.Succeed())
				s.groupPatch("g", `{"metadata":{"finalizers":["`+theirs+`","reboot.homeostat.dev/ledger"]}}`)
			},
			method: http.MethodPatch, path: groups + "/g",
			act: func(s *stage) {
				s.Expect(s.groups.Delete(s.ctx, "g", metav1.DeleteOptions{})).To(gomega.Succeed())
			},
			meanwhile: func(s *stage) { s.groupPatch("g", `{"metadata":{"labels":{"a":"b"}}}`) },
			check:     func(s *stage) { s.Expect(s.finalizers("g")).To(gomega.Equal([]string{theirs})) },
		},
		"the deletion of the group, before a reservation": {
			method: http.MethodGet, path: groups,
			meanwhile: func(s *stage) {
				s.groupPatch("g", `{"metadata":{"finalizers":["`+theirs+`"]}}`)
				s.Expect(s.groups.Delete(s.ctx, "g", metav1.DeleteOptions{})).To(gomega.Succeed())
			},
			check: func(s *stage) {
				s.Expect(s.holders("g")).To(gomega.BeEmpty())
				s.Expect(s.finalizers("g")).To(gomega.Equal([]string{theirs}))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *stage) {
				s.group("g", intstr.FromInt32(1), nil)
				s.node("n1", nil)
				if c.prepare != nil {
					c.prepare(s)
				}
				s.pass(time.Minute)
				came := s.meanwhile(c.method, c.path, func() { c.meanwhile(s) })
				if c.act != nil {
					c.act(s)
				} else {
					s.ask("n1")
				}
				s.pass(time.Minute)
				s.Expect(came()).To(gomega.BeTrue())
				c.check(s)
			})
		})
	}
}

// The live reads decide on the built-in group: a change that the cache has not
// seen is not a failure.
func TestTheBuiltInGroupIsNotMadeForANodeThatNeedsItNoLonger(t *testing.T) {
	for name, change := range map[string]func(s *stage){
		"deleted": func(s *stage) {
			s.Expect(s.core.CoreV1().Nodes().Delete(s.ctx, "n1", metav1.DeleteOptions{})).To(gomega.Succeed())
		},
		"withdrawn": func(s *stage) { s.change("n1", map[string]any{protocol.Needed: nil}) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *stage) {
				s.node("n1", nil)
				s.pass(time.Minute)
				came := s.meanwhile(http.MethodGet, nodes+"/n1", func() { change(s) })
				s.ask("n1")
				s.pass(time.Minute)
				s.Expect(came()).To(gomega.BeTrue())
				s.Expect(s.exists(api.DefaultName)).To(gomega.BeFalse())
				stats := s.controller.Control().Stats()
				s.Expect(stats.Panics).To(gomega.BeZero())
				s.Expect(s.controller.Control().QueueStats().Retried).To(gomega.BeZero())
			})
		})
	}
}

// Another replica has made it: that is no failure.
func TestABuiltInGroupThatIsThereAlreadyIsUsed(t *testing.T) {
	play(t, func(s *stage) {
		s.node("n1", nil)
		s.pass(time.Minute)
		came := s.meanwhile(http.MethodPost, groups, func() {
			s.group(api.DefaultName, intstr.FromInt32(2), nil)
		})
		s.ask("n1")
		s.pass(time.Minute)
		s.Expect(came()).To(gomega.BeTrue())
		s.Expect(s.granted("n1")).To(gomega.BeTrue())
		s.Expect(s.controller.Control().QueueStats().Retried).To(gomega.BeZero())
		s.Expect(s.condition(api.DefaultName, rules.ConditionValid)).To(gomega.HavePrefix("True"))
	})
}

// A grant that was not accepted is taken back when the group's spec is no
// longer valid.
func TestASpecThatBecomesInvalidTakesBackWhatHasNotBegun(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Minute)
		s.Expect(s.granted("n1")).To(gomega.BeTrue())
		s.groupPatch("g", `{"spec":{"maxUnavailable":0}}`)
		s.pass(time.Minute)
		s.Expect(s.granted("n1")).To(gomega.BeFalse())
		s.Expect(s.holders("g")).To(gomega.BeEmpty())
		s.Expect(s.logged(`"revoked the grant"`)).To(gomega.ConsistOf(
			gomega.ContainSubstring(`"why"="the group's spec is invalid"`)))
	})
}

// A node that has left the group during its reboot still shows in the
// conditions of its group, and no other group's.
func TestOnlyItsOwnGuestsAreInTheConditionsOfAGroup(t *testing.T) {
	play(t, func(s *stage) {
		s.group("a", intstr.FromInt32(1), only("n1"))
		s.group("b", intstr.FromInt32(1), only("n2"))
		s.asking("n1", "n2")
		s.pass(time.Minute)
		s.change("n1", map[string]any{
			protocol.Now: nil, protocol.InProgress: `{"request":"r","epoch":1,"bootID":"b1","blocked":"Pod a/b: budget"}`,
		})
		s.label("n1", "moved")
		s.pass(time.Minute)
		s.Expect(s.condition("a", rules.ConditionDrained)).To(gomega.HaveSuffix("n1: Pod a/b: budget"))
		s.Expect(s.condition("b", rules.ConditionDrained)).To(gomega.HavePrefix("True"))
	})
}

// A node that needs a reboot again keeps its slot if no other request waits,
// and joins the queue if one does.
func TestASlotIsKeptForTheNextRequestOnlyIfNoneWaits(t *testing.T) {
	for name, c := range map[string]struct {
		others  []string
		holder  string
		granted protocol.Request
		asked   int
	}{
		"none waits": {nil, "n1", protocol.Request{Request: "again", Epoch: 2}, 1},
		"one waits":  {[]string{"n2"}, "n2", protocol.Request{Request: "r", Epoch: 1}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *stage) {
				s.group("g", intstr.FromInt32(1), nil)
				s.asking("n1")
				s.pass(time.Minute)
				s.asking(c.others...)
				s.change("n1", map[string]any{protocol.Now: nil, protocol.InProgress: `{"request":"r","epoch":1,"bootID":"b1"}`})
				s.pass(time.Minute)
				s.boot("n1", "b2")
				s.change("n1", map[string]any{
					protocol.InProgress: nil, protocol.Needed: "again",
					protocol.LastReboot: `{"request":"r","epoch":1,"fromBootID":"b1","toBootID":"b2","result":"rebooted"}`,
				})
				s.pass(time.Minute)
				s.Expect(s.status("g").Slots).To(gomega.ConsistOf(gomega.And(gomega.HaveField("Node", c.holder),
					gomega.HaveField("Request", c.granted.Request), gomega.HaveField("Epoch", c.granted.Epoch))))
				s.Expect(s.state(c.holder).Now).To(gomega.HaveValue(gomega.HaveField("Request", c.granted)))
				s.Expect(s.events.count("Requested")).To(gomega.Equal(c.asked))
			})
		})
	}
}

// Other groups take over the nodes that a changed selector leaves to them, even
// if its own group cannot write its status.
func TestAChangeOfASelectorConcernsAllGroups(t *testing.T) {
	play(t, func(s *stage) {
		s.group("a", intstr.FromInt32(1), nil)
		s.group("b", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Minute)
		s.Expect(s.granted("n1")).To(gomega.BeFalse())
		refuse := wiretap.For(time.Hour, http.MethodPatch, groups+"/a/status", func(r *http.Request) *http.Response {
			return wiretap.Refuse(r, apierrors.NewInternalError(errors.New("not now")))
		})
		s.before.Store(&refuse)
		s.groupPatch("a", `{"spec":{"nodeSelector":{"matchLabels":{"name":"none"}}}}`)
		s.pass(time.Minute)
		s.Expect(s.holders("b")).To(gomega.Equal([]string{"n1"}))
	})
}
