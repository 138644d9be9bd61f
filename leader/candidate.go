package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// candidate makes the requests for one Lease and remembers the Lease as it last
// saw it. The campaign's goroutine and the goroutines of its requests call the
// methods. Other goroutines call only the methods that Elector's status needs.
type candidate struct {
	lease   Lease
	options Options
	owner   any            // the elector, whose fence lets the requests pass
	member  *record.Member // the member of shards; nil for a plain elector
	verbs   string         // the verbs that the client needs on leases

	mu      sync.Mutex // guards the fields below
	holder  string     // the Identity with a random suffix and, for a member, the number of the term; see nextTerm
	seen    record.Observation
	problem error     // why the last attempt failed; nil if it succeeded
	failed  step      // the request that problem is about
	logged  foreign   // the last holder that was logged because it is not a replica
	pending time.Time // when the request in flight was sent; zero if there is no such request
	quiet   time.Time // when requests of earlier terms can no longer arrive
	doubt   bool      // whether an attempt to take the Lease, which may have taken it, has failed since one succeeded
}

func newCandidate(l Lease, o Options, owner any) *candidate {
	c := &candidate{lease: l, options: o, owner: owner, verbs: "get, create and update"}
	c.holder = fmt.Sprintf("%s_%08x", l.Identity, rand.Uint32())
	return c
}

// join makes the candidate hold the Lease of a member of shards. It must be
// called before the first request.
func (c *candidate) join(m *record.Member) {
	o := c.options
	c.member, c.verbs = m, m.Verbs
	c.holder = m.Join(c.holder, record.Timing{
		LeaseDuration: o.LeaseDuration, RequestTimeout: o.RequestTimeout, RetryPeriod: o.RetryPeriod, Clock: o.Clock,
		AnswerTimeout: o.answerTimeout(),
	})
}

// try reads the Lease once, takes it if it is free, and reports whether it has
// taken it. The requests may outlive ctx: a request that is canceled may still
// take the Lease, and then other replicas must wait until it expires.
func (c *candidate) try(ctx context.Context) (grant, bool) {
	lease, err := c.get(ctx, c.options.answerTimeout())
	if err != nil && !record.IsNotFound(err, c.lease.Name) {
		c.report(ctx, reading, c.explain(reading, err))
		return grant{}, false
	}
	c.observe(lease)
	if c.untilFree() > 0 {
		c.report(ctx, reading, c.checkTwin())
		c.logForeign(ctx)
		return grant{}, false
	}
	send := c.put
	if lease == nil {
		lease, send = &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.lease.Namespace, Name: c.lease.Name},
		}, c.post
	}
	sent := c.options.Clock.Now()
	change := record.Taken(lease, c.holder, c.options.LeaseDuration, sent)
	taken := c.write(ctx, c.options.answerTimeout(), change, send)
	if taken.err != nil {
		c.setDoubt(true)
		c.report(ctx, taking, c.explain(taking, taken.err))
		return grant{}, false
	}
	c.observe(taken.lease)
	if !taken.made { // another replica was faster
		return grant{}, false
	}
	c.setDoubt(false)
	c.report(ctx, taking, nil)
	return grant{lease: taken.lease, sent: sent}, true
}

// untilFree returns how long this replica must wait before it may take the
// Lease. There are three reasons to wait:
//
//   - Another holder may still lead, by this replica's clock.
//   - Requests of this process's last term may still arrive.
//   - This process took the Lease but did not get the answer. Then the other
//     replicas may try first, because one of them may get answers in time.
func (c *candidate) untilFree() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := c.seen.FreeAt(c.options.LeaseDuration)
	if c.isSelf(record.Holder(c.seen.Lease)) && !c.doubt {
		free = c.seen.Since
	}
	if c.quiet.After(free) {
		free = c.quiet
	}
	return free.Sub(c.options.Clock.Now())
}

// isSelf reports whether a holder is this process, in its present or an earlier
// term.
func (c *candidate) isSelf(holder string) bool { return holder == c.holder || c.member.HasTerm(holder) }

// pause returns how long to wait before the next try: a retry period, or less
// if the Lease becomes free earlier. The period has jitter. So replicas that
// started together drift apart.
func (c *candidate) pause() time.Duration {
	period := c.options.RetryPeriod + rand.N(c.options.RetryPeriod/5+1)
	if left := c.untilFree(); left > 0 {
		return min(left, period)
	}
	return period
}

// observe records the Lease of an answer that has just arrived.
func (c *candidate) observe(lease *coordinationv1.Lease) {
	now := c.options.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = c.seen.See(lease, now)
}

// checkTwin returns an error if a live process with this replica's identity
// holds the Lease.
func (c *candidate) checkTwin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder := record.Holder(c.seen.Lease)
	if c.isSelf(holder) || !strings.HasPrefix(holder, c.lease.Identity+"_") || !c.seen.Since.After(c.seen.HolderSince) {
		return nil
	}
	return fmt.Errorf("campaigning for lease %q: Lease.Identity %q is also the identity of the live replica %q: "+
		"give each replica its own, such as the name of its pod", c.lease.key(), c.lease.Identity, holder)
}

// step is the verb by which messages name a request for the Lease, such as
// "renewing".
type step string

const (
	reading  step = "reading"
	taking   step = "taking"
	renewing step = "renewing"
)

// report records why a request failed, or that it succeeded. It logs a reason
// that differs from the last one in more than its numbers, and which request
// was the first to succeed after it. If another replica holds the Lease, the
// reason is logged as information, and otherwise as an error.
//
// That the Lease can be read does not show that it can be written. So a read
// ends the problem of a write only if another client holds the Lease.
func (c *candidate) report(ctx context.Context, s step, err error) {
	c.mu.Lock()
	holder := record.Holder(c.seen.Lease)
	standby := holder != "" && !c.isSelf(holder)
	if err == nil && s == reading && c.failed != reading && !standby {
		c.mu.Unlock()
		return
	}
	news := err != nil && (c.problem == nil || withoutNumbers(c.problem) != withoutNumbers(err))
	recovered := err == nil && c.problem != nil
	c.problem, c.failed = err, s
	c.mu.Unlock()
	switch log := klog.FromContext(ctx); {
	case recovered:
		log.Info("lease request succeeds again", "request", s, "lease", c.lease.key(), "holder", holder)
	case news && standby:
		log.Info("lease request of a standby failed, retrying", "lease", c.lease.key(), "holder", holder, "err", err.Error())
	case news:
		log.Error(err, "lease request failed, retrying", "lease", c.lease.key())
	}
}

var numbers = regexp.MustCompile(`[\w.-]*\d[\w.-]*`) //nolint:gochecknoglobals // compiled once

// withoutNumbers returns the text of an error with 0 in place of each word with
// a digit. Times, durations and the ids of requests may differ although the
// cause is the same.
func withoutNumbers(err error) string { return numbers.ReplaceAllString(err.Error(), "0") }

// explain wraps the error of a request, and says what to do about it.
func (c *candidate) explain(s step, err error) error {
	return record.Explain(string(s), c.lease.key(), c.verbs, record.Informed(c.lease.Client, err))
}

// nextTerm ends a term. quiet is the time until which its requests may still
// arrive. A member of shards has a new holder name in each term. Once the
// campaign has begun, only nextTerm changes holder, in the campaign's
// goroutine. So that goroutine may read holder without mu.
func (c *candidate) nextTerm(quiet time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = quiet
	if c.member != nil {
		c.holder = c.member.NextHolder()
	}
}

// renew prolongs the term, or ends it if this replica no longer holds the
// Lease, or if the Lease was deleted. It returns what report needs: the request
// and its error. If the term has ended, this is a successful read, because the
// Lease was not written. The trust window starts when the request was sent,
// because no other replica can have seen the change before that.
func (c *candidate) renew(ctx context.Context, t *term) (step, error) {
	sent := c.options.Clock.Now()
	r := c.write(ctx, t.monotonicLeft(), record.Renewed(t.record(), sent), c.put)
	if r.err == nil && !r.made && record.Holder(r.lease) == c.holder {
		// An earlier answer was lost, or another client edited the Lease.
		sent = c.options.Clock.Now()
		r = c.write(ctx, t.monotonicLeft(), record.Renewed(r.lease, sent), c.put)
	}
	switch {
	case record.IsNotFound(r.err, c.lease.Name):
		c.observe(nil)
		t.cancel(fmt.Errorf("%w: %q was deleted", ErrLost, c.lease.key()))
		return reading, nil
	case r.err != nil:
		return renewing, c.explain(renewing, r.err)
	}
	c.observe(r.lease)
	switch {
	case record.Holder(r.lease) != c.holder:
		t.cancel(fmt.Errorf("%w: %q now holds lease %q", ErrLost, record.Holder(r.lease), c.lease.key()))
		return reading, nil
	case !r.made:
		return renewing, c.explain(renewing, errEdited)
	}
	t.renewed(grant{lease: r.lease, sent: sent})
	return renewing, nil
}

// errEdited is the reason for a failed renewal that conflicted with edits of
// other clients twice.
var errEdited = errors.New("other clients keep editing the lease")

// release clears the holder. The next leader then need not wait until the Lease
// expires. If it fails, the Lease expires.
func (c *candidate) release(ctx context.Context, t *term) {
	log := klog.FromContext(ctx).WithValues("lease", c.lease.key())
	lease := t.record()
	for range record.ReleaseTries {
		released, err := c.update(ctx, record.Released(lease, 0, c.options.Clock.Now()))
		if err == nil {
			c.observe(released)
			log.Info("lease released")
			return
		}
		if apierrors.IsConflict(err) {
			lease, err = c.get(ctx, c.options.RequestTimeout)
		}
		if err != nil {
			log.Info("releasing the lease failed, leaving it to expire", "cause", err.Error())
			return
		}
		c.observe(lease)
		if record.Holder(lease) != c.holder {
			return
		}
	}
}

// result is the Lease after a write. made is true if the Lease has the change.
// It is false after an error, and if other clients have written the Lease
// instead.
type result struct {
	lease *coordinationv1.Lease
	made  bool
	err   error
}

// write sends a change of the Lease and waits for the answer within limit.
// After each RequestTimeout without an answer it makes another attempt, while
// the earlier ones may still be answered. It returns the first result without
// an error or, if all attempts fail, the last error.
func (c *candidate) write(ctx context.Context, limit time.Duration, change *coordinationv1.Lease, send request) result {
	ctx, end := c.begin(ctx, limit)
	c.member.Mark(change)
	var attempts sync.WaitGroup
	defer attempts.Wait()
	defer end()
	results := make(chan result, limit/c.options.RequestTimeout+2)
	attempts.Go(func() { results <- c.attempt(ctx, change, send) })
	repeat := c.options.Clock.NewTimer(c.options.RequestTimeout)
	defer repeat.Stop()
	for open := 1; ; {
		select {
		case <-repeat.C():
			if ctx.Err() == nil {
				attempts.Go(func() { results <- c.attemptAgain(ctx, change, send) })
				open++
				repeat.Reset(c.options.RequestTimeout)
			}
		case r := <-results:
			if open--; r.err == nil || open == 0 {
				return r
			}
		}
	}
}

// attempt sends a change once. After a conflict it reads the Lease, because an
// earlier attempt may have made the change.
func (c *candidate) attempt(ctx context.Context, change *coordinationv1.Lease, send request) result {
	lease, err := send(ctx, change)
	if absent.IsConflict(err) {
		lease, err = c.read(ctx)
		return result{lease, err == nil && record.Shows(lease, change), err}
	}
	return result{lease, err == nil, err}
}

// attemptAgain repeats a change that has not been answered, unless the Lease
// shows that the change was made or can no longer be made. The resourceVersion
// in the change ensures that it is made at most once.
func (c *candidate) attemptAgain(ctx context.Context, change *coordinationv1.Lease, send request) result {
	lease, err := c.read(ctx)
	switch {
	case err == nil && lease.ResourceVersion != change.ResourceVersion:
		return result{lease, record.Shows(lease, change), nil}
	case err != nil && (change.ResourceVersion != "" || !record.IsNotFound(err, c.lease.Name)):
		return result{nil, false, err}
	}
	return c.attempt(ctx, change, send)
}

// request is a function that sends one request to write the Lease: post or put.
type request func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)

func (c *candidate) read(ctx context.Context) (*coordinationv1.Lease, error) {
	return record.Get(ctx, c.lease.Client.Leases(c.lease.Namespace), c.lease.Name)
}

func (c *candidate) post(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return record.Create(ctx, c.lease.Client.Leases(c.lease.Namespace), lease)
}

func (c *candidate) put(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return record.Update(ctx, c.lease.Client.Leases(c.lease.Namespace), lease)
}

// get reads the Lease, and waits at most limit for the answer.
func (c *candidate) get(ctx context.Context, limit time.Duration) (*coordinationv1.Lease, error) {
	ctx, end := c.begin(ctx, limit)
	defer end()
	return c.read(ctx)
}

// update replaces the Lease, and waits at most RequestTimeout for the answer.
func (c *candidate) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, end := c.begin(ctx, c.options.RequestTimeout)
	defer end()
	c.member.Mark(lease)
	return c.put(ctx, lease)
}

// begin returns a context for requests about the Lease, and a function that
// ends the context. The elector's own fence lets these requests pass. The
// context ends after limit, or RequestTimeout after the end of ctx if that is
// earlier.
func (c *candidate) begin(ctx context.Context, limit time.Duration) (context.Context, func()) {
	own, cancel := context.WithTimeout(record.WithOwn(ctx, c.owner), limit)
	stop := context.AfterFunc(ctx, func() {
		record.Sleep(own, c.options.Clock, c.options.RequestTimeout)
		cancel()
	})
	c.setPending(c.options.Clock.Now())
	return own, func() {
		stop()
		cancel()
		c.setPending(time.Time{})
	}
}

func (c *candidate) setDoubt(doubt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubt = doubt
}

func (c *candidate) setPending(pending time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = pending
}
