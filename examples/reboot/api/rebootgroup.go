package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DefaultName is the name of the built-in group: it has the nodes that no other
// group selects. The controller creates it when it is missed.
const DefaultName = "default"

// A RebootGroup is a set of nodes and the rules by which they are rebooted.
type RebootGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   RebootGroupSpec   `json:"spec"`
	Status RebootGroupStatus `json:"status,omitzero"`
}

// RebootGroupSpec is what the administrator wants.
type RebootGroupSpec struct {
	// NodeSelector selects the nodes of the group; without it, all. A node that
	// several groups select belongs to the first of them by name, and to the
	// group named [DefaultName] last.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// MaxUnavailable is how many nodes of the group may be unavailable at once,
	// or which percentage of them, rounded down, but at least 1.
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`
	// Paused stops new reboots; what an agent has accepted goes on.
	Paused bool `json:"paused,omitempty"`
	// MinReadySeconds is how long a node must have been Ready after its reboot
	// before the next one may go.
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
}

// RebootGroupStatus is what the controller knows.
type RebootGroupStatus struct {
	// ObservedGeneration is the generation of the spec that the conditions are about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes is how many nodes belong to the group.
	Nodes int32 `json:"nodes,omitempty"`
	// Limit is maxUnavailable as a number of nodes.
	Limit int32 `json:"limit,omitempty"`
	// Slots is the ledger: who may be disrupted, in the order of reservation.
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
	// Verify says that the node was not back from its last reboot when the slot
	// was rewritten: it must be, before the slot is released.
	Verify bool `json:"verify,omitempty"`
}

// A Waiting is a request that has no slot yet.
type Waiting struct {
	Node    string      `json:"node"`
	NodeUID types.UID   `json:"nodeUID"`
	Since   metav1.Time `json:"since,omitzero"`
}

// RebootGroupList is a list of groups.
type RebootGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []RebootGroup `json:"items"`
}
