package api

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DefaultName is the name of the built-in group, which contains the nodes that
// no other group selects. The controller creates the group when a node needs
// it.
const DefaultName = "default"

// A RebootGroup is a set of nodes and the rules by which they are rebooted.
type RebootGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   RebootGroupSpec   `json:"spec"`
	Status RebootGroupStatus `json:"status,omitzero"`
}

// RebootGroupSpec contains the rules that the administrator sets.
type RebootGroupSpec struct {
	// NodeSelector selects the nodes of the group. If several groups select a
	// node, none of them begins to reboot it. The group named [DefaultName]
	// contains only nodes that no other group selects. A selector must not be
	// empty. Defaults to all nodes.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// MaxUnavailable is the number of nodes in the group that may be
	// unavailable at once. It can be a percentage. A percentage is rounded
	// down, but to at least 1.
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`
	// Paused stops new reboots; accepted ones continue.
	Paused bool `json:"paused,omitempty"`
	// MinReadySeconds is how long a node must be Ready after its reboot before
	// its slot is released for another node.
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// Windows are the times at which a reboot may begin. It may begin if any of
	// them is open. Without windows it may always begin.
	Windows []Window `json:"windows,omitempty"`
	// Drain specifies how Pods are evicted before a reboot.
	Drain Drain `json:"drain,omitzero"`
	// MaxReboots limits how often one node is rebooted, regardless of who
	// requests it.
	MaxReboots MaxReboots `json:"maxReboots,omitzero"`
}

// MaxReboots limits the reboots of one node to Count in any period of Hours.
// Further requests wait, and the condition HeldBack names the node.
type MaxReboots struct {
	// Count is the number of reboots. Defaults to 3.
	Count int32 `json:"count,omitempty"`
	// Hours is the length of the period. Defaults to 24.
	Hours int32 `json:"hours,omitempty"`
}

// Bounds returns the number of reboots and the period, with the defaults.
func (m MaxReboots) Bounds() (count int, period time.Duration) {
	const defaultCount, defaultHours = 3, 24
	return cmp.Or(int(m.Count), defaultCount), time.Duration(cmp.Or(m.Hours, defaultHours)) * time.Hour
}

// Window is a maintenance window in the local time of a time zone. A window in
// the hour that is skipped in spring does not open on that day. A window in the
// hour that is repeated in autumn opens twice.
type Window struct {
	// Days are the weekdays on which the window begins, Mon to Sun. Defaults to
	// all.
	Days []string `json:"days,omitempty"`
	// Start and End are times of day, such as 22:00. A window with an end
	// before its start ends on the next day.
	Start string `json:"start"`
	End   string `json:"end"`
	// TimeZone is a name of the IANA database, such as Europe/Berlin. Defaults
	// to UTC.
	TimeZone string `json:"timeZone,omitempty"`
}

// Drain specifies how Pods are evicted before a reboot.
type Drain struct {
	// Policy is the reaction to a drain that takes too long. "abort" releases
	// the slot and tries again later, "wait" continues to drain, and "force"
	// reboots although Pods are left. Defaults to abort.
	Policy string `json:"policy,omitempty"`
	// TimeoutSeconds is how long a drain may take. Defaults to 600.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// RetrySeconds is how long a request waits after its reboot was called off.
	// Defaults to 1800.
	RetrySeconds int32 `json:"retrySeconds,omitempty"`
}

// DefaultRetry is the default of Drain.RetrySeconds.
const DefaultRetry = 30 * time.Minute

// Retry returns how long a request waits after its reboot was called off.
func (d Drain) Retry() time.Duration {
	return cmp.Or(time.Duration(d.RetrySeconds)*time.Second, DefaultRetry)
}

// RebootGroupStatus contains the ledger, and the reports that the controller
// writes for people.
type RebootGroupStatus struct {
	// ObservedGeneration is the generation of the spec that the conditions
	// describe.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes is the number of nodes in the group.
	Nodes int32 `json:"nodes,omitempty"`
	// Limit is maxUnavailable as a number of nodes. It is 0 if maxUnavailable
	// is malformed.
	Limit int32 `json:"limit,omitempty"`
	// Slots are the ledger: the nodes that may be disrupted, in the order of
	// reservation.
	Slots []Slot `json:"slots,omitempty"`
	// Queue contains the requests without a slot, oldest first. If it contains
	// 1000 or more, further requests join it when it gets shorter. Only a
	// request whose reboot was called off returns to it at once.
	Queue []Waiting `json:"queue,omitempty"`
	// Conditions explain why nodes are not rebooting.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// A Slot is the permission to disrupt one node.
type Slot struct {
	Node    string    `json:"node"`
	NodeUID types.UID `json:"nodeUID"`
	// Request is the value of reboot-needed for which the slot was reserved.
	Request string `json:"request,omitempty"`
	// Epoch is the number of the reboot. Each reboot of a node has its own
	// epoch.
	Epoch int64 `json:"epoch"`
	// Since is when the slot was reserved, or when it was last changed to a
	// different request or epoch.
	Since metav1.Time `json:"since,omitzero"`
	// Stage is the last stage of the reboot that the controller has seen.
	// StageSince is when it first saw the stage, by its own clock. Deadlines
	// count from that time, with two exceptions: the silence of an agent counts
	// from HeardAt, and the refusals of a machine count from its first
	// permission.
	Stage      string      `json:"stage,omitempty"`
	StageSince metav1.Time `json:"stageSince,omitzero"`
	// Beat is the number of the last sign of life of the agent that the
	// controller has recorded. HeardAt is when the controller recorded it.
	Beat    int64       `json:"beat,omitempty"`
	HeardAt metav1.Time `json:"heardAt,omitzero"`
	// Verify is true if the slot was changed to another request before the node
	// was back from its last reboot. The slot is not released before the node
	// is back.
	Verify bool `json:"verify,omitempty"`
}

// A Waiting is a request that has no slot yet.
type Waiting struct {
	Node    string      `json:"node"`
	NodeUID types.UID   `json:"nodeUID"`
	Since   metav1.Time `json:"since,omitzero"`
	// NotBefore is when a called-off request may be tried again, by the
	// controller's clock. A new request does not wait for it.
	NotBefore metav1.Time `json:"notBefore,omitzero"`
}

// RebootGroupList is a list of groups.
type RebootGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []RebootGroup `json:"items"`
}
