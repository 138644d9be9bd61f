package protocol

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Request is one request in one epoch: at most one reboot.
type Request struct {
	Request string `json:"request"`
	Epoch   int64  `json:"epoch"`
}

// Grant is the permission to reboot for one request, with its terms.
type Grant struct {
	Request `json:",inline"`
	Terms   `json:",inline"`
	// At is when the controller granted it, by the controller's clock. It is
	// zero for the grant of an older controller, which gives no permits.
	At metav1.Time `json:"at,omitzero"`
}

// Terms are the rules of the group, as of the grant, that the agent obeys.
type Terms struct {
	// Policy of the agent when its drain takes too long. Defaults to
	// [PolicyAbort].
	Policy string `json:"drainPolicy,omitempty"`
	// DrainSeconds is how long the drain may take. Defaults to
	// [DefaultDrainTimeout].
	DrainSeconds int32 `json:"drainSeconds,omitempty"`
	// NotAfter is when the maintenance window closes: nothing is accepted then.
	// The controller alone decides whether the machine may still go down.
	// Defaults to no end.
	NotAfter metav1.Time `json:"notAfter,omitzero"`
}

// The policies for a drain that takes too long.
const (
	// PolicyAbort calls the reboot off; the request waits for another slot.
	PolicyAbort = "abort"
	// PolicyWait continues draining.
	PolicyWait = "wait"
	// PolicyForce reboots with the Pods that are left.
	PolicyForce = "force"
)

// DefaultDrainTimeout is how long a drain may take if the grant does not say.
const DefaultDrainTimeout = 10 * time.Minute

// DrainTimeout is how long the drain may take.
func (t Terms) DrainTimeout() time.Duration {
	return cmp.Or(time.Duration(t.DrainSeconds)*time.Second, DefaultDrainTimeout)
}

// Expired reports whether the maintenance window has closed.
func (t Terms) Expired(now time.Time) bool {
	return !t.NotAfter.IsZero() && !now.Before(t.NotAfter.Time)
}

// Silence returns how long the controller waits for a sign of an agent that has
// accepted. The agent gives one four times as often.
func (t Terms) Silence() time.Duration { return max(t.DrainTimeout(), time.Minute) }

// A Progress is a reboot that an agent has accepted.
type Progress struct {
	Request `json:",inline"`
	Terms   `json:",inline"`
	// BootID is the kernel's boot id when the agent accepted: the reboot is done
	// when the kernel has a different one.
	BootID string `json:"bootID"`
	// CordonedByAgent says that the accept write cordoned the node.
	CordonedByAgent bool        `json:"cordonedByAgent"`
	AcceptedAt      metav1.Time `json:"acceptedAt"`
	// Start names the start of the agent that wrote this last. An agent of an older
	// release leaves it empty.
	Start string `json:"start,omitempty"`
	// Beat grows with every write of the agent, which writes from time to time
	// even if there is nothing new: as long as it grows, the agent is alive.
	Beat int64 `json:"beat,omitempty"`
	// Blocked says which Pods cannot be evicted, and why. It is empty when none is
	// refused.
	Blocked string `json:"blocked,omitempty"`
	// Left says which Pods the drain waits for.
	Left string `json:"left,omitempty"`
	// Drained says that the drain is over.
	Drained bool `json:"drained,omitempty"`
	// Try numbers the agent's questions whether the machine may go down now,
	// and Waits says that it waits for the answer, a [Permission] of the same
	// number.
	Try   int64 `json:"try,omitempty"`
	Waits bool  `json:"waits,omitempty"`
	// Asked is set before the machine is told to reboot. From then on it may go
	// down at any time, so the reboot can no longer be called off.
	Asked *Asked `json:"asked,omitempty"`
	// Refused says why the machine has not gone down when it was told to.
	Refused string `json:"refused,omitempty"`
}

// Asked says that the machine was told to reboot.
type Asked struct {
	// Start names the start of the agent that told it: one that starts later
	// under the same boot id cannot know what became of that.
	Start string      `json:"start"`
	At    metav1.Time `json:"at"`
}

// MayGoDown reports whether the machine may have been told to reboot. An agent
// of an older release tells it once the drain is over.
func (p *Progress) MayGoDown() bool { return p.Asked != nil || p.Start == "" && p.Drained }

// A Permission lets the agent tell its machine to reboot.
type Permission struct {
	Request `json:",inline"`
	// Try is the number of the agent's question.
	Try int64 `json:"try"`
	// Seconds is how long the permission is valid. The agent counts from before it
	// asked, so no clock is compared with another.
	Seconds int32 `json:"seconds"`
}

// Answers reports whether the permission answers the agent's latest question.
func (m *Permission) Answers(p *Progress) bool {
	return m != nil && m.Request == p.Request && m.Try == p.Try
}

// Told is a reboot that the controller has permitted, at a time of its clock.
type Told struct {
	Epoch int64       `json:"epoch"`
	At    metav1.Time `json:"at"`
}

// The results of a reboot.
const (
	Rebooted  = "rebooted"   // it took place
	CalledOff = "called-off" // the machine was not told to reboot
	Unproven  = "unproven"   // the machine was told to, and still reports the same boot
)

// An Outcome is how a reboot ended.
type Outcome struct {
	Request    `json:",inline"`
	FromBootID string `json:"fromBootID"`
	// ToBootID is the newest boot that the agent knows.
	ToBootID string      `json:"toBootID"`
	At       metav1.Time `json:"at"`
	Result   string      `json:"result"`
	// Why says why the reboot was called off.
	Why string `json:"why,omitempty"`
}

// A State is the content of a node's annotations. A key that is missing, or
// cannot be read, is nil; Faults has the latter.
type State struct {
	Needed     *string
	Paused     bool
	Now        *Grant
	InProgress *Progress
	Permit     *Permission
	Last       *Outcome
	Recent     []Told
	Void       int64
	Faults     []*FaultError
}

// Read reads the annotations of a node. A reboot-paused that cannot be read
// counts as paused.
func Read(node *corev1.Node) State {
	r := reader{node: node}
	s := State{Needed: r.needed(), Paused: r.paused(), Void: r.void()}
	s.Now = decode(&r, Now, func(v *Grant) error { return v.check() })
	s.InProgress = decode(&r, InProgress, func(v *Progress) error {
		return errors.Join(v.check(), filled("bootID", v.BootID))
	})
	s.Last = decode(&r, LastReboot, func(v *Outcome) error {
		if v.Result == CalledOff {
			return v.check() // A node that never had an agent may report no boot.
		}
		return errors.Join(v.check(), filled("toBootID", v.ToBootID))
	})
	s.Permit = decode(&r, Permit, func(v *Permission) error { return v.check() })
	if all := decode(&r, Recent, func(*[]Told) error { return nil }); all != nil {
		s.Recent = *all
	}
	s.Faults = r.faults
	return s
}

// Fault returns the faults of the given keys, or of all keys, as one error.
func (s State) Fault(keys ...string) error {
	var all []error
	for _, f := range s.Faults {
		if len(keys) == 0 || slices.Contains(keys, f.Key) {
			all = append(all, f)
		}
	}
	return errors.Join(all...)
}

// Spent returns the last epoch in which no reboot can be granted any longer,
// because it took place or is void, and 0 before the first. It never falls.
func (s State) Spent() int64 {
	if s.Last == nil {
		return s.Void
	}
	return max(s.Void, s.Last.Epoch)
}

// Claimed reports whether the node carries reboot-now or reboot-in-progress,
// readable or not.
func Claimed(node *corev1.Node) bool {
	_, now := node.Annotations[Now]
	_, inProgress := node.Annotations[InProgress]
	return now || inProgress
}

func (r Request) check() error {
	if r.Epoch < 1 {
		return fmt.Errorf("epoch is %d, must be at least 1", r.Epoch)
	}
	return nil
}

func filled(field, value string) error {
	if value == "" {
		return fmt.Errorf("%s is empty", field)
	}
	return nil
}

const operatorOnly = "it is written by the operator only: remove the annotation to let the operator decide again"

// A reader collects the faults of one node.
type reader struct {
	node   *corev1.Node
	faults []*FaultError
}

func (r *reader) fault(key, remedy, format string, args ...any) {
	r.faults = append(r.faults, &FaultError{
		Node: r.node.Name, Key: key, Remedy: remedy, Problem: fmt.Sprintf(format, args...),
	})
}

func (r *reader) needed() *string {
	value, ok := r.node.Annotations[Needed]
	if !ok {
		return nil
	}
	const remedy = "set a short request id, or leave the value empty"
	if len(value) > MaxRequest {
		r.fault(Needed, remedy, "the value has %d bytes, at most %d are allowed", len(value), MaxRequest)
		return nil
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		r.fault(Needed, remedy, "the value %q has control characters", value)
		return nil
	}
	return &value
}

func (r *reader) paused() bool {
	switch value, ok := r.node.Annotations[Paused]; {
	case !ok, value == "false":
		return false
	case value == "true":
		return true
	default:
		r.fault(Paused, `set "true" or remove the annotation; until then the node counts as paused`,
			"the value %s is neither", clip(value))
		return true
	}
}

func (r *reader) void() int64 {
	text, ok := r.node.Annotations[Void]
	if !ok {
		return 0
	}
	epoch, err := strconv.ParseInt(text, 10, 64)
	if err != nil || epoch < 1 {
		r.fault(Void, operatorOnly, "the value %s is not a number of at least 1", clip(text))
		return 0
	}
	return epoch
}

func decode[T any](r *reader, key string, check func(*T) error) *T {
	text, ok := r.node.Annotations[key]
	if !ok {
		return nil
	}
	value := new(T)
	err := json.Unmarshal([]byte(text), value)
	if err == nil {
		err = check(value)
	}
	if err != nil {
		r.fault(key, operatorOnly, "the value %s is not what the operator writes (%v)", clip(text), err)
		return nil
	}
	return value
}

// clip quotes a value for a message.
func clip(value string) string {
	const most = 60
	if len(value) > most {
		return fmt.Sprintf("%q…", value[:most])
	}
	return fmt.Sprintf("%q", value)
}
