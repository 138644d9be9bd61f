package shard_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// gaps looks ten times a second for how long no replica has one of the eighths. stop returns the longest.
func (x *fixture) gaps() (stop func() time.Duration) {
	var longest time.Duration
	since := map[int]time.Time{}
	end := x.run(func(ctx context.Context) error {
		for ctx.Err() == nil {
			owned := x.owned()
			for n := range 8 {
				if _, has := owned[n]; has || since[n].IsZero() {
					since[n] = time.Now()
				}
				longest = max(longest, time.Since(since[n]))
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil
	})
	return func() time.Duration {
		end()
		return longest
	}
}

// Replicas record no ranges before the last ones have settled, but another client may: then one owner drains ranges
// of the first version while others have those of the third.
func TestRangesThatChangeTwiceInARowGiveNoNamespaceTwoOwners(t *testing.T) {
	for _, between := range []time.Duration{0, 100 * time.Millisecond, time.Second, 5 * time.Second} {
		for slow := range 4 {
			t.Run(fmt.Sprintf("%v apart, slot %d is slow", between, slow), func(t *testing.T) {
				inBubble(t, func(x *fixture) {
					all := []*ranged{x.ranged("a"), x.ranged("b"), x.ranged("c")}
					pass(30 * time.Second)
					longest := x.gaps()
					for _, r := range all {
						if r.name == x.owned()[2*slow] {
							r.set(func(r *ranged) { r.drain = time.Minute })
						}
					}
					x.divide(secondRanges)
					pass(between)
					x.divide(thirdRanges)
					pass(10 * time.Second)
					x.Expect(x.fault).To(BeEmpty())
					all = append(all, x.ranged("d")) // it begins with the third
					pass(90 * time.Second)
					for _, r := range all {
						x.Expect(r.slots()).To(Equal([]int{0, 0, 0, 0, 2, 3, 3, 1}))
						r.set(func(r *ranged) { r.drain = 0 })
					}
					x.Expect(x.owned()).To(HaveLen(8))
					x.Expect(longest()).To(BeNumerically("<=", time.Minute+10*time.Second), "the drain, and a few seconds")
					for _, r := range all {
						r.end()
					}
				})
			})
		}
	}
}

// A replica with the name of one that has left, or died, is another member.
func TestAReplicaThatComesBackDuringAChangeTakesNothingTwice(t *testing.T) {
	for _, dies := range []bool{false, true} {
		for _, left := range []time.Duration{0, time.Second, 4 * time.Second} {
			for _, away := range []time.Duration{0, time.Second, 6 * time.Second} {
				t.Run(fmt.Sprintf("dies %v, %v after the change, away %v", dies, left, away), func(t *testing.T) {
					inBubble(t, func(x *fixture) {
						a, b := x.ranged("a"), x.ranged("b")
						pass(30 * time.Second)
						longest := x.gaps()
						for _, r := range []*ranged{a, b} {
							r.set(func(r *ranged) { r.drain = 2 * time.Second })
						}
						x.divide(secondRanges)
						pass(left)
						if dies {
							a.die()
						} else {
							a.end()
						}
						pass(away)
						a = x.ranged("a")
						pass(time.Minute)
						x.Expect(x.owned()).To(HaveLen(8))
						x.Expect(a.slots()).To(Equal([]int{0, 0, 0, 0, 2, 2, 3, 1}))
						x.Expect(x.shares()).To(HaveKey("a"))
						x.Expect(longest()).To(BeNumerically("<=", 2*leaseDuration))
						a.end()
						b.end()
					})
				})
			}
		}
	}
}

// A replica of an older build, which knows no change of ranges, has a slot: its record has no mark, and it drains nothing.
func TestAChangeWaitsForAReplicaThatKnowsNone(t *testing.T) {
	for name, c := range map[string]struct {
		ranges           []string
		owned            []int // the eighths that have an owner meanwhile
		before, versions []string
	}{
		"one change": {[]string{secondRanges}, []int{4, 5, 6, 7}, []string{"2", "2", "", ""}, []string{"2", "2", "", "2"}},
		// Another client records the second before the first has settled.
		"two changes": {
			[]string{secondRanges, thirdRanges}, []int{6, 7}, []string{"2", "2", "3", ""}, []string{"2", "2", "3", "3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				stop := x.renewOnly("a")
				pass(2 * time.Second)
				member, err := x.api.Get("test-member-a")
				x.Expect(err).NotTo(HaveOccurred())
				slot := leaseapi.Object("test-slot-3")
				slot.Labels = map[string]string{
					"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "slot", "leader.homeostat.dev/slot": "3",
				}
				slot.Spec.HolderIdentity = member.Spec.HolderIdentity
				_, err = x.api.Create(slot)
				x.Expect(err).NotTo(HaveOccurred())
				x.take(6, "a")
				x.take(7, "a")
				b, d := x.ranged("b"), x.ranged("c")
				pass(30 * time.Second)
				x.Expect(x.owned()).To(HaveLen(8))
				for _, text := range c.ranges {
					x.divide(text)
					pass(2 * time.Minute)
				}
				x.Expect(x.fault).To(BeEmpty())
				x.Expect(slices.Sorted(maps.Keys(x.owned()))).To(Equal(c.owned), "it goes on, as do slots whose ranges stay")
				x.Expect(x.versions()).To(Equal(c.before))
				x.leave(6)
				x.leave(7)
				stop()
				pass(leaseDuration + 5*time.Second)
				x.Expect(x.owned()).To(HaveLen(8))
				x.Expect(x.versions()).To(Equal(c.versions))
				for n, version := range c.versions { // it looks for slots only
					kind := map[bool]string{true: "slot", false: "range"}[version == ""]
					x.Expect(x.record(n).Labels).To(HaveKeyWithValue("leader.homeostat.dev/record", kind))
				}
				b.end()
				d.end()
			})
		})
	}
}

// lateWriter is a connection to the API that delays writes to the configuration.
type lateWriter struct {
	*leaseapi.Link
	api    *leaseapi.API
	arrive chan struct{}

	mu   sync.Mutex // guards the fields below
	held int
	errs []error
}

func (w *lateWriter) Leases(string) coordinationclient.LeaseInterface { return w }

func (w *lateWriter) Update(
	ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if l.Name != "test" {
		return w.Link.Update(ctx, l, o)
	}
	w.mu.Lock()
	w.held++
	w.mu.Unlock()
	go func() {
		<-w.arrive
		_, err := w.api.Update(l)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.errs = append(w.errs, err)
	}()
	<-ctx.Done()
	return nil, ctx.Err()
}

// arrived returns how many writes there were, and how many of them have arrived and failed.
func (w *lateWriter) arrived() (held, failed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.errs {
		if err != nil {
			failed++
		}
	}
	return w.held, failed
}

// The first member by name decides, and is replaced before its write has arrived: before or after the next one decides.
func TestOfTwoDecisionsAtOnceOneCounts(t *testing.T) {
	for name, late := range map[string]time.Duration{
		"before the next": time.Minute, "as the next looks": 12 * time.Minute, "after it": 2 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, map[string]int{}, "b c", func(x *cluster) {
				w := &lateWriter{Link: x.api.Link(9), api: x.api, arrive: make(chan struct{})}
				x.startAt("a", w)
				pass(30 * time.Minute)
				x.come(teams(99, 10))
				for held, wait := 0, 0; held == 0; held, _ = w.arrived() {
					wait++
					x.Expect(wait).To(BeNumerically("<", 7200), "it decides in bounded time")
					pass(time.Second)
				}
				_, before := x.config()
				x.replicas["a"].stop()
				x.Expect(x.replicas["a"].logs.count("cannot record other ranges")).To(BeNumerically(">", 0))
				delete(x.replicas, "a")
				pass(late)
				close(w.arrive)
				pass(10 * time.Second)
				held, failed := w.arrived()
				rv, ranges := x.config()
				x.Expect(ranges).NotTo(Equal(before))
				if late < time.Hour {
					x.Expect(failed).To(Equal(held-1), "the first of its writes arrives")
				} else {
					x.Expect(failed).To(Equal(held), "other ranges are recorded")
				}
				pass(2 * time.Hour)
				x.Expect(x.heaviest()).To(BeNumerically("<=", 1.2))
				again, _ := x.config()
				if late >= time.Hour {
					x.Expect(again).To(Equal(rv))
				}
			})
		})
	}
}

// meddled is a way to the API on which another client writes just before the configuration is read.
type meddled struct {
	*leaseapi.Link

	mu     sync.Mutex // guards the fields below
	meddle func()     // once, if it is not nil
}

func (m *meddled) Leases(string) coordinationclient.LeaseInterface { return m }

func (m *meddled) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "test" && m.meddle != nil {
		m.meddle()
		m.meddle = nil
	}
	return m.Link.Get(ctx, name, o)
}

// A member's decision is about the ranges that it has seen: it does not replace others.
func TestADecisionDoesNotReplaceRangesThatItIsNotAbout(t *testing.T) {
	inCluster(t, map[string]int{}, "b", func(x *cluster) {
		way, edited := &meddled{Link: x.api.Link(9)}, make(chan string, 1)
		x.startAt("a", way)
		pass(30 * time.Minute)
		_, before := x.config()
		way.mu.Lock()
		way.meddle = func() { // other weights
			fields := strings.Fields(before)
			fields[3], _, _ = strings.Cut(fields[3], ":")
			fields[3] += ":1"
			x.divide(strings.Join(fields, " "))
			edited <- strings.Join(fields, " ")
		}
		way.mu.Unlock()
		x.come(teams(99, 10))
		var text string
		for wait := 0; text == ""; wait++ {
			x.Expect(wait).To(BeNumerically("<", 7200), "it decides in bounded time")
			pass(time.Second)
			select {
			case text = <-edited:
			default:
			}
		}
		pass(8 * time.Minute)
		_, ranges := x.config()
		x.Expect(ranges).To(Equal(text))
		pass(2 * time.Hour)
		x.Expect(x.heaviest()).To(BeNumerically("<=", 1.2), "it decides anew")
	})
}

// Where the heaviest replica has less than half above the mean, nothing may have moved for an hour.
func TestASlotThatHasMovedPutsADecisionOff(t *testing.T) {
	for moves, changes := range map[bool]bool{false: true, true: false} {
		t.Run(fmt.Sprint("moves ", moves), func(t *testing.T) {
			inCluster(t, teams(99, 10), "a b c", func(x *cluster) {
				pass(2 * time.Hour)
				_, before := x.config()
				x.mu.Lock()
				r, moved := x.replicas["a"], -1
				for name := range x.objects {
					if _, here := r.slots[r.Slot(types.NamespacedName{Namespace: name})]; here {
						x.objects[name] = x.objects[name] * 8 / 5
					}
				}
				for slot := range x.replicas["b"].slots {
					moved = max(moved, slot)
				}
				x.mu.Unlock()
				if moves {
					x.api.Delete(fmt.Sprint("test-slot-", moved))
				}
				pass(45 * time.Minute)
				_, after := x.config()
				changed := after != before
				x.Expect(changed).To(Equal(changes), "%.2f", x.heaviest())
				pass(90 * time.Minute)
				x.Expect(x.heaviest()).To(BeNumerically("<=", 1.2))
			})
		})
	}
}
