package shard_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
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

	"github.com/homeostat/homeostat/internal/proof/leaseapi"
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

// laden are replicas with ranges whose slots have objects and take time.
type laden struct {
	*fixture
	namespaces map[string]int
	replicas   map[string]*ladenReplica

	mu      sync.Mutex // guards what follows
	random  *rand.Rand
	objects []float64 // of each slot
	rates   []float64 // seconds in reconciles of each second
	noise   float64   // the time of each minute differs by so much at most, as a part
}

// ladenReplica is one that runs. The mutex of laden guards its slots.
type ladenReplica struct {
	*shard.Ranges
	slots map[int]*slots.Work
	at    time.Time // until when their time is counted
	stop  func()
	link  *leaseapi.Link
}

// counted is a cache of which only the numbers of objects are known.
type counted struct {
	slots.Cache
	of map[string]int
}

func (counted) LastResourceVersion() string { return "1" }

func (c counted) CountNamespaces(context.Context) (map[string]int, error) { return c.of, nil }

// inLadenBubble runs f with as many replicas, which have shared out 64 slots and have been working for half an hour: with 3.2
// workers, on reconciles that take as long for each object.
func inLadenBubble(t *testing.T, n int, quiet func(name string) bool, f func(x *laden)) {
	t.Helper()
	inBubble(t, func(fixture *fixture) {
		x := &laden{
			fixture: fixture, namespaces: map[string]int{}, replicas: map[string]*ladenReplica{},
			random: rand.New(rand.NewPCG(7, 8)), noise: 0.3,
		}
		for n := range 2000 {
			x.namespaces[fmt.Sprintf("pr-%d", n+1)] = 1 + n%7
		}
		defer func() {
			for _, r := range x.replicas {
				r.stop()
			}
		}()
		x.objects, x.rates = make([]float64, 64), make([]float64, 64)
		for n := range n {
			name := fmt.Sprint("r", n)
			x.start(name, !quiet(name))
			pass(13 * time.Second) // they renew at different times
			if n == 0 {
				x.divide()
			}
		}
		pass(30 * time.Minute)
		x.movedSince()
		f(x)
	})
}

func nobody(string) bool { return false }

// idle is that of package shard, in seconds of each second.
const idle = 0.05

// start starts a replica, which publishes what its slots cost, or does not.
func (x *laden) start(name string, publishes bool) {
	link := x.api.Link(int64(len(name)))
	x.startWith(name, link, publishes)
	x.replicas[name].link = link
}

func (x *laden) startWith(name string, client coordinationclient.LeasesGetter, publishes bool) {
	r := &ladenReplica{slots: map[int]*slots.Work{}, at: time.Now()}
	lease := leader.Lease{Client: client, Namespace: "default", Name: "test", Identity: name}
	var err error
	r.Ranges, err = shard.NewRanges(lease, &shard.Options{Member: leader.Options{LeaseDuration: 2 * time.Minute}})
	x.Expect(err).NotTo(HaveOccurred())
	x.replicas[name] = r
	r.stop = x.run(func(ctx context.Context) error {
		if err := r.Divide(ctx, []slots.Cache{counted{of: x.namespaces}}); err != nil {
			return err
		}
		var measuring sync.WaitGroup
		defer measuring.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if publishes {
			measuring.Go(func() { r.Measure(ctx, func() []slots.Work { return x.measure(r) }) })
		}
		return r.Run(ctx, func(ctx context.Context, slot int) error {
			x.mu.Lock()
			r.slots[slot] = &slots.Work{Slot: slot, Since: time.Now()}
			x.mu.Unlock()
			err := x.work(name, time.Second)(ctx, slot)
			x.mu.Lock()
			delete(r.slots, slot)
			x.mu.Unlock()
			return err
		})
	})
}

// divide finds out what each slot has.
func (x *laden) divide() {
	total := 0.0
	for namespace, objects := range x.namespaces {
		x.objects[x.replicas["r0"].Slot(types.NamespacedName{Namespace: namespace})] += float64(objects)
		total += float64(objects)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for slot := range x.rates {
		x.rates[slot] = 3.2 * x.objects[slot] / total
	}
}

func (x *laden) measure(r *ladenReplica) (all []slots.Work) {
	x.mu.Lock()
	defer x.mu.Unlock()
	passed := time.Since(r.at).Seconds()
	r.at = time.Now()
	for slot := range 64 { // in order: the noise is drawn
		if w := r.slots[slot]; w != nil {
			took := passed * x.rates[slot] * (1 + x.noise*(2*x.random.Float64()-1))
			w.Busy += time.Duration(took * float64(time.Second))
			w.Objects = int(x.objects[slot])
			all = append(all, *w)
		}
	}
	return all
}

// change multiplies the time that reconciles of a slot take.
func (x *laden) change(slot int, by float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rates[slot] *= by
}

// heaviest returns the greatest weight of a replica beside the mean, by what is true and not by what is published. idle is
// the time of each replica that is divided as the objects are.
func (x *laden) heaviest(idle float64) float64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	var objects, busy, most float64
	for slot := range x.rates {
		objects, busy = objects+x.objects[slot], busy+x.rates[slot]
	}
	idle *= float64(len(x.replicas))
	of := map[string]float64{}
	for slot, owner := range x.owned() {
		part := x.objects[slot] / objects
		of[owner] += (part + (x.rates[slot]+idle*part)/(busy+idle)) / 2
	}
	for _, weight := range of {
		most = max(most, weight)
	}
	return most * float64(len(x.replicas))
}

func TestNoiseMovesNoSlot(t *testing.T) {
	for _, n := range []int{3, 8} {
		inLadenBubble(t, n, nobody, func(x *laden) {
			x.Expect(x.heaviest(idle)).To(BeNumerically("<=", 1.2))
			slot, err := x.api.Get("test-slot-7")
			x.Expect(err).NotTo(HaveOccurred())
			before := x.api.Newest()
			pass(time.Hour)
			x.Expect(x.movedSince()).To(BeZero(), "%d replicas", n)
			renewals := n * int(time.Hour/(16*time.Second))
			x.Expect(x.api.Newest()-before).To(BeNumerically("~", renewals, 2*n), "nothing but renewals is written")
			again, err := x.api.Get("test-slot-7")
			x.Expect(err).NotTo(HaveOccurred())
			x.Expect(again).To(Equal(slot))
			x.Expect(x.published()).To(Equal(64))
		})
	}
}

func TestLittleNoiseIsNotPublished(t *testing.T) {
	inLadenBubble(t, 3, nobody, func(x *laden) {
		x.mu.Lock()
		x.noise = 0.05
		x.mu.Unlock()
		pass(time.Hour)
		before := x.texts()
		pass(time.Hour)
		x.Expect(x.texts()).To(Equal(before))
	})
}

// texts returns what each replica publishes.
func (x *laden) texts() map[string]string {
	texts := map[string]string{}
	for name := range x.replicas {
		lease, err := x.api.Get("test-member-" + name)
		x.Expect(err).NotTo(HaveOccurred())
		texts[name] = lease.Annotations["leader.homeostat.dev/load"]
	}
	return texts
}

// published returns how many slots have a load in the records of the members.
func (x *laden) published() (n int) {
	for _, text := range x.texts() {
		n += len(regexp.MustCompile(` \d+:\d+:\d+`).FindAllString(text, -1))
	}
	return n
}

func TestASlotThatCostsMoreIsBalanced(t *testing.T) {
	for _, n := range []int{5, 8} {
		inLadenBubble(t, n, nobody, func(x *laden) {
			x.change(20, 10)
			before, minutes, moves := x.heaviest(idle), 0, 0
			for x.heaviest(idle) > 1.2 && minutes < 60 { // it may be less at once, if the replica has less of other slots
				pass(time.Minute)
				minutes++
			}
			moves = x.movedSince()
			x.Expect(minutes).To(BeNumerically("<=", 10))
			pass(time.Hour)
			moves += x.movedSince()
			t.Logf("%d replicas: the heaviest had %.2f of the mean, after %d minutes 1.2 at most; in the end %.2f, by the plain "+
				"mean of both parts %.2f; %d slots moved", n, before, minutes, x.heaviest(idle), x.heaviest(0), moves)
			x.Expect(x.heaviest(idle)).To(BeNumerically("<=", 1.2))
			x.Expect(moves).To(BeNumerically("<=", 4))
			for _, r := range x.replicas {
				x.Expect(r.Status().Slots[20].Weight).To(BeNumerically(">", 3./64), "as all replicas show")
			}

			// What is known of a slot comes to its next owner, also from one that has died.
			owner := x.owned()[20]
			x.replicas[owner].link.Set(func(l *leaseapi.Link) { l.Fail = context.DeadlineExceeded })
			pass(8 * time.Minute)
			x.Expect(x.owned()[20]).NotTo(Equal(owner))
			for name, r := range x.replicas {
				if name != owner {
					x.Expect(r.Status().Slots[20].Weight).To(BeNumerically(">", 3./64))
				}
			}
			x.start("late", true)
			pass(time.Minute)
			x.Expect(x.replicas["late"].Status().Slots[20].Weight).To(BeNumerically(">", 3./64))
		})
	}
}

// Four times the time everywhere is no reason for a move, also while one replica has not measured it.
func TestAReplicaThatPublishesNothingKeepsItsSlots(t *testing.T) {
	for _, silent := range []string{"r1", "r2"} {
		inLadenBubble(t, 3, func(name string) bool { return name == silent }, func(x *laden) {
			for slot := range 64 {
				x.change(slot, 4)
			}
			pass(time.Hour)
			x.Expect(x.movedSince()).To(BeZero())
			x.Expect(x.published()).To(And(BeNumerically(">", 30), BeNumerically("<", 64)))
		})
	}
}

// older is the way of a replica that publishes nothing.
type older struct{ *leaseapi.Link }

func (o older) Leases(string) coordinationclient.LeaseInterface { return o }

func (o older) Create(
	ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	delete(lease.Annotations, "leader.homeostat.dev/load")
	return o.Link.Create(ctx, lease, options)
}

func (o older) Update(
	ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	delete(lease.Annotations, "leader.homeostat.dev/load")
	return o.Link.Update(ctx, lease, options)
}

// One of an older build knows the recorded weights only: as long as it is there, all plan by these.
func TestReplicasPlanAsOneOfAnOlderBuildDoes(t *testing.T) {
	inLadenBubble(t, 8, nobody, func(x *laden) {
		x.startWith("old", older{x.api.Link(9)}, false)
		pass(time.Minute)
		x.movedSince()
		x.change(20, 10)
		pass(time.Hour)
		x.Expect(x.movedSince()).To(BeZero())
		x.replicas["old"].stop()
		delete(x.replicas, "old")
		pass(30 * time.Minute) // if the slot was the old one's, its next owner measures it
		x.Expect(x.heaviest(idle)).To(BeNumerically("<=", 1.2))
	})
}

// Others may edit what a replica publishes, which writes it again when it renews. An edit that is no renewal does not
// count, and what cannot be parsed is unknown.
func TestLoadsThatAnotherClientHasEditedMoveNoSlot(t *testing.T) {
	inLadenBubble(t, 3, nobody, func(x *laden) {
		for n, list := range []string{
			"NaN", "1:2", "%s 1:NaN:-1", "%s 1:99999999999999999999:1", "%s 1:-5:5 2:Inf:5", "%s", "%s 1:1000000000:1000000000", "",
		} {
			lease, err := x.api.Get("test-member-r1")
			x.Expect(err).NotTo(HaveOccurred())
			was := lease.Annotations["leader.homeostat.dev/load"]
			list = strings.ReplaceAll(list, "%s", was[:8])
			if n < 6 { // and looks like the replica's own
				lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now()))
			}
			lease.Annotations["leader.homeostat.dev/load"] = list
			_, err = x.api.Update(lease)
			x.Expect(err).NotTo(HaveOccurred())
			pass(5 * time.Minute)
			lease, err = x.api.Get("test-member-r1")
			x.Expect(err).NotTo(HaveOccurred())
			x.Expect(lease.Annotations["leader.homeostat.dev/load"]).NotTo(Equal(list))
			x.Expect(x.movedSince()).To(BeZero(), list)
		}
		var weights []float64
		for _, s := range x.replicas["r0"].Status().Slots {
			weights = append(weights, s.Weight)
		}
		x.Expect(slices.ContainsFunc(weights, math.IsNaN)).To(BeFalse())
	})
}

func TestAllReplicasMeasureAtTheSameTime(t *testing.T) {
	inBubble(t, func(x *fixture) {
		r, err := shard.NewRanges(leaseOf(x.api.Link(1), "a"), nil)
		x.Expect(err).NotTo(HaveOccurred())
		pass(17 * time.Second)
		stop := x.run(func(ctx context.Context) error {
			r.Measure(ctx, func() []slots.Work {
				x.add("%v", time.Since(time.Now().Truncate(time.Minute)))
				return nil
			})
			return nil
		})
		pass(3 * time.Minute)
		stop()
		x.Expect(x.read()).To(Equal([]string{"0s", "0s", "0s"}))
	})
}
