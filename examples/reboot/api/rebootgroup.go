package api

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DefaultName is the name of the built-in group: it has the nodes that no other
// group selects. The controller creates it when it is needed.
const DefaultName = "default"

// A RebootGroup is a set of nodes and the rules by which they are rebooted.
type RebootGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   RebootGroupSpec   `json:"spec"`
	Status RebootGroupStatus `json:"status,omitzero"`
}

// RebootGroupSpec holds the rules, which the administrator sets.
type RebootGroupSpec struct {
	// NodeSelector selects the nodes of the group; without it, all. A node that
	// several groups select is rebooted by none of them; the group named
	// [DefaultName] has only nodes that no other selects.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// MaxUnavailable is how many nodes of the group may be unavailable at once,
	// or which percentage of them, rounded down, but at least 1.
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`
	// Paused stops new reboots; accepted ones continue.
	Paused bool `json:"paused,omitempty"`
	// MinReadySeconds is how long a node must have been Ready after its reboot
	// before the next one may go.
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// Windows are the times at which a reboot may begin; without any, always. Several
	// add up.
	Windows []Window `json:"windows,omitempty"`
	// Drain is how Pods leave a node before its reboot.
	Drain Drain `json:"drain,omitzero"`
	// MaxReboots bounds how often one node is rebooted, whatever asks for it.
	MaxReboots MaxReboots `json:"maxReboots,omitzero"`
}

// MaxReboots is how many reboots a node may have in that many hours. Further requests
// wait, and the condition HeldBack names the node.
type MaxReboots struct {
	// Count defaults to 3.
	Count int32 `json:"count,omitempty"`
	// Hours defaults to 24.
	Hours int32 `json:"hours,omitempty"`
}

// Bounds returns the number and the time, with the defaults.
func (m MaxReboots) Bounds() (count int, in time.Duration) {
	const defaultCount, defaultHours = 3, 24
	return cmp.Or(int(m.Count), defaultCount), time.Duration(cmp.Or(m.Hours, defaultHours)) * time.Hour
}

// Window is a maintenance window. It is read off a clock on the wall of its time zone:
// an hour that is skipped in spring has no window, one that comes twice in autumn has
// it twice.
type Window struct {
	// Days are the days on which the window begins: Mon to Sun. Defaults to all.
	Days []string `json:"days,omitempty"`
	// Start and End are times of the day, such as 22:00. A window whose end is before
	// its start ends on the next day.
	Start string `json:"start"`
	End   string `json:"end"`
	// TimeZone is a name of the IANA database, such as Europe/Berlin. Defaults to UTC.
	TimeZone string `json:"timeZone,omitempty"`
}

// Drain is how Pods leave a node before its reboot.
type Drain struct {
	// Policy for a drain that takes too long: abort gives the slot back and tries again
	// later, wait continues, force reboots with the Pods that are left.
	// Defaults to abort.
	Policy string `json:"policy,omitempty"`
	// TimeoutSeconds is how long is too long. Defaults to 600.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// RetrySeconds is how long a request waits after it was called off. Defaults to
	// 1800.
	RetrySeconds int32 `json:"retrySeconds,omitempty"`
}

// DefaultRetry is how long a request waits after it was called off.
const DefaultRetry = 30 * time.Minute

// Retry is how long a request waits after it was called off.
func (d Drain) Retry() time.Duration {
	return cmp.Or(time.Duration(d.RetrySeconds)*time.Second, DefaultRetry)
}

// RebootGroupStatus holds the ledger and the controller's reports.
type RebootGroupStatus struct {
	// ObservedGeneration is the generation of the spec that the conditions are about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes is how many nodes belong to the group.
	Nodes int32 `json:"nodes,omitempty"`
	// Limit is maxUnavailable as a number of nodes.
	Limit int32 `json:"limit,omitempty"`
	// Slots is the ledger: which nodes may be disrupted, in the order of reservation.
	Slots []Slot `json:"slots,omitempty"`
	// Queue has the requests without a slot, oldest first.
	Queue []Waiting `json:"queue,omitempty"`
	// Conditions answer the question why a node is not rebooting.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// A Slot is the right of one node to be disrupted.
type Slot struct {
	Node    string    `json:"node"`
	NodeUID types.UID `json:"nodeUID"`
	// Request is the value of reboot-needed for which the slot was reserved.
	Request string `json:"request,omitempty"`
	// Epoch numbers the reboots of one node; one epoch is one reboot.
	Epoch int64 `json:"epoch"`
	// Since is when the slot was reserved, or rewritten for another request.
	Since metav1.Time `json:"since,omitzero"`
	// Stage is how far the controller has seen the reboot come, and StageSince when it
	// first saw that, by its own clock: every deadline is counted from there.
	Stage      string      `json:"stage,omitempty"`
	StageSince metav1.Time `json:"stageSince,omitzero"`
	// Beat is the latest sign of the agent that was noted, and HeardAt when.
	Beat    int64       `json:"beat,omitempty"`
	HeardAt metav1.Time `json:"heardAt,omitzero"`
	// Verify says that the node was not back from its last reboot when the slot
	// was rewritten: it must be, before the slot is released.
	Verify bool `json:"verify,omitempty"`
}

// A Waiting is a request that has no slot yet.
type Waiting struct {
	Node    string      `json:"node"`
	NodeUID types.UID   `json:"nodeUID"`
	Since   metav1.Time `json:"since,omitzero"`
	// NotBefore is when a request that was called off may be tried again, by the
	// controller's clock. Another request need not wait.
	NotBefore metav1.Time `json:"notBefore,omitzero"`
}

// RebootGroupList is a list of groups.
type RebootGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []RebootGroup `json:"items"`
}
