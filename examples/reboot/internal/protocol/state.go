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

// A Request is a request for a reboot in one epoch. At most one reboot takes
// place in each epoch.
type Request struct {
	Request string `json:"request"`
	Epoch   int64  `json:"epoch"`
}

// Grant is the permission to reboot for one request, with its terms.
type Grant struct {
	Request `json:",inline"`
	Terms   `json:",inline"`
	// At is when the controller granted the reboot, by its own clock. It is
	// zero if the controller is an older release that does not set permits.
	At metav1.Time `json:"at,omitzero"`
}

// Terms are the rules that the agent obeys. They are copied from the group at
// the time of the grant.
type Terms struct {
	// Policy is the reaction to a drain that takes too long. Defaults to
	// [PolicyAbort].
	Policy string `json:"drainPolicy,omitempty"`
	// DrainSeconds is how long the drain may take. Defaults to
	// [DefaultDrainTimeout].
	DrainSeconds int32 `json:"drainSeconds,omitempty"`
	// NotAfter is when the maintenance window closes. The agent accepts no
	// grant after that. Whether the machine may still go down is the
	// controller's decision. Defaults to no end.
	NotAfter metav1.Time `json:"notAfter,omitzero"`
}

// The policies for a drain that takes too long.
const (
	// PolicyAbort calls the reboot off. The request waits for another slot.
	PolicyAbort = "abort"
	// PolicyWait continues to drain.
	PolicyWait = "wait"
	// PolicyForce reboots while Pods are left.
	PolicyForce = "force"
)

// DefaultDrainTimeout is the default of Terms.DrainSeconds.
const DefaultDrainTimeout = 10 * time.Minute

// DrainTimeout is how long the drain may take.
func (t Terms) DrainTimeout() time.Duration {
	return cmp.Or(time.Duration(t.DrainSeconds)*time.Second, DefaultDrainTimeout)
}

// Expired reports whether the maintenance window has closed.
func (t Terms) Expired(now time.Time) bool {
	return !t.NotAfter.IsZero() && !now.Before(t.NotAfter.Time)
}

// Silence returns how long the controller waits for a beat of an agent that has
// accepted, but has not told its machine to reboot. Until then, the agent sends
// a beat about once in each quarter of that time.
func (t Terms) Silence() time.Duration { return max(t.DrainTimeout(), time.Minute) }

// A Progress is the state of a reboot that an agent has accepted.
type Progress struct {
	Request `json:",inline"`
	Terms   `json:",inline"`
	// BootID is the boot id that the kernel had when the agent accepted the
	// reboot. The reboot is complete when the kernel has a different boot id.
	BootID string `json:"bootID"`
	// CordonedByAgent is true if the agent cordoned the node when it accepted
	// the reboot. It is false if the node had been cordoned before, and becomes
	// false if another client uncordons the node.
	CordonedByAgent bool        `json:"cordonedByAgent"`
	AcceptedAt      metav1.Time `json:"acceptedAt"`
	// Start identifies the run of the agent that last wrote this state. It is
	// empty if an agent of an older release wrote it.
	Start string `json:"start,omitempty"`
	// Beat grows with every write of the agent. Even without progress, the
	// agent writes from time to time to show that it is alive.
	Beat int64 `json:"beat,omitempty"`
	// Blocked describes the Pods whose eviction is refused, and why. It is
	// empty if there are no such Pods.
	Blocked string `json:"blocked,omitempty"`
	// Left describes the Pods that the drain waits for.
	Left string `json:"left,omitempty"`
	// Drained is true after the drain.
	Drained bool `json:"drained,omitempty"`
	// Try is the number of times that the agent has asked whether the machine
	// may go down. So it also identifies the last question. Waits is true while
	// the agent waits for the answer, a [Permission] with the same number.
	Try   int64 `json:"try,omitempty"`
	Waits bool  `json:"waits,omitempty"`
	// Asked is set before the machine is told to reboot. After that the machine
	// may go down at any time, so the reboot cannot be called off any more. Only
	// if the machine refuses, Asked is removed again.
	Asked *Asked `json:"asked,omitempty"`
	// Refused is why the machine has refused to reboot. A machine that has
	// accepted the call, or has not answered, has not refused: it may still go
	// down.
	Refused string `json:"refused,omitempty"`
}

// Asked records that the machine was told to reboot, or is about to be told.
type Asked struct {
	// Start identifies the run of the agent that told the machine. If the agent
	// starts again and finds the same boot id, it cannot know whether the
	// machine will still go down.
	Start string      `json:"start"`
	At    metav1.Time `json:"at"`
}

// MayGoDown reports whether the machine may have been told to reboot. An agent
// of an older release does not record that it has told the machine, but it
// tells the machine right after the drain.
func (p *Progress) MayGoDown() bool { return p.Asked != nil || p.Start == "" && p.Drained }

// A Permission lets the agent tell its machine to reboot.
type Permission struct {
	Request `json:",inline"`
	// Try is the number of the question that the permission answers, see
	// Progress.Try.
	Try int64 `json:"try"`
	// Seconds is how many seconds the permission is valid. The agent measures
	// them on its own clock, and begins just before it writes the question
	// (Try). So the clocks of the agent and the controller need not agree.
	Seconds int32 `json:"seconds"`
}

// Answers reports whether the permission answers the agent's latest question.
func (m *Permission) Answers(p *Progress) bool {
	return m != nil && m.Request == p.Request && m.Try == p.Try
}

// Told is a reboot that the controller has permitted, with the time of the
// permission by the controller's clock.
type Told struct {
	Epoch int64       `json:"epoch"`
	At    metav1.Time `json:"at"`
	// First is when the controller first permitted the reboot, if it has
	// permitted it several times. For example, a machine that refuses is told
	// again every minute.
	First metav1.Time `json:"first,omitzero"`
}

// The results of a reboot.
const (
	Rebooted  = "rebooted"   // the reboot took place
	CalledOff = "called-off" // the machine was not told to reboot, or has refused
	Unproven  = "unproven"   // the machine was told to reboot, but still reports the same boot
)

// An Outcome is the result of a reboot.
type Outcome struct {
	Request    `json:",inline"`
	FromBootID string `json:"fromBootID"`
	// ToBootID is the id of the newest boot that was known when the annotation
	// was written. The agent writes it again after a later boot. It may be
	// empty if the reboot was called off on a node that has never had an agent.
	ToBootID string      `json:"toBootID"`
	At       metav1.Time `json:"at"`
	Result   string      `json:"result"`
	// Why is the reason for the result. It is empty if the agent has recorded
	// that the reboot took place.
	Why string `json:"why,omitempty"`
}

// A State is the content of a node's annotations. The field of a missing key is
// nil or zero. An annotation that cannot be parsed has an entry in Faults, and
// its field is nil or zero, too, except for Paused, which is true then.
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

// Read reads the annotations of a node. A reboot-paused that cannot be parsed
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
			return v.check() // A node that never had an agent may have no boot id.
		}
		return errors.Join(v.check(), filled("toBootID", v.ToBootID))
	})
	s.Permit = decode(&r, Permit, func(v *Permission) error { return v.check() })
	if recent := decode(&r, Recent, func(*[]Told) error { return nil }); recent != nil {
		s.Recent = *recent
	}
	s.Faults = r.faults
	return s
}

// Fault returns the faults of the given keys as one error. Without keys, it
// returns the faults of all keys.
func (s State) Fault(keys ...string) error {
	var faults []error
	for _, f := range s.Faults {
		if len(keys) == 0 || slices.Contains(keys, f.Key) {
			faults = append(faults, f)
		}
	}
	return errors.Join(faults...)
}

// Permitted returns when the controller first permitted the reboot of an epoch.
// It returns the zero time if the recent reboots do not contain the epoch.
func (s State) Permitted(epoch int64) time.Time {
	for _, t := range s.Recent {
		if t.Epoch == epoch {
			return cmp.Or(t.First, t.At).Time
		}
	}
	return time.Time{}
}

// Spent returns the last epoch that cannot be granted any more: the epoch of
// the last reboot, whatever its result was, or the last void epoch if that is
// later. It returns 0 if there is no such epoch. The result does not decrease,
// unless one of the annotations is removed or cannot be parsed.
func (s State) Spent() int64 {
	if s.Last == nil {
		return s.Void
	}
	return max(s.Void, s.Last.Epoch)
}

// Claimed reports whether the node has reboot-now or reboot-in-progress, even
// if they cannot be parsed.
func Claimed(node *corev1.Node) bool {
	_, granted := node.Annotations[Now]
	_, inProgress := node.Annotations[InProgress]
	return granted || inProgress
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

const operatorOnly = "only the operator writes this value: remove the annotation to let the operator decide again"

// A reader reads the annotations of one node, and collects the errors in them.
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
			`the value %s is not "true"`, clip(value))
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

// clip quotes a value for a message, and shortens a long one.
func clip(value string) string {
	const maxLength = 60
	if len(value) > maxLength {
		return fmt.Sprintf("%q…", value[:maxLength])
	}
	return fmt.Sprintf("%q", value)
}
