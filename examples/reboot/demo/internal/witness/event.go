package witness

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const prefix = "reboot.homeostat.dev/"

// An Event is a new state of a node or of a ledger, or the deletion of one, as
// the API server has sent it. Either Node or Ledger is set. Version is the
// resourceVersion as a number.
type Event struct {
	Version int64
	Node    *Node
	Ledger  *Ledger
	Deleted bool
}

// A Node contains the fields of a node that the witness checks.
type Node struct {
	Name, UID     string
	Needed        bool
	Told          bool  // whether the node has reboot-now
	Rebooting     bool  // whether the node has reboot-in-progress
	Epoch         int64 // the epoch in reboot-now or reboot-in-progress
	Done          int64 // the epoch of last-reboot
	NewBoot       string
	Ready         string // the status of the condition Ready; empty if the node lacks the condition
	Boot          string // the boot id in the node's status
	Unschedulable bool
}

// A Ledger contains the fields of a RebootGroup that the witness checks.
type Ledger struct {
	Name  string
	Max   int64
	Slots []Slot
}

// A Slot is one entry of a ledger.
type Slot struct{ Node, UID string }

// Read returns the event for a node or a RebootGroup. deleted is true if the
// object was deleted.
func Read(u *unstructured.Unstructured, deleted bool) (Event, error) {
	version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return Event{}, fmt.Errorf("reading the resourceVersion of %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	e := Event{Version: version, Deleted: deleted}
	switch u.GetKind() {
	case "Node":
		e.Node, err = readNode(u)
	case "RebootGroup":
		e.Ledger, err = readLedger(u)
	default:
		err = fmt.Errorf("reading %q: kind %q is neither Node nor RebootGroup", u.GetName(), u.GetKind())
	}
	return e, err
}

func readNode(u *unstructured.Unstructured) (*Node, error) {
	n := &Node{Name: u.GetName(), UID: string(u.GetUID())}
	annotations := u.GetAnnotations()
	_, n.Needed = annotations[prefix+"reboot-needed"]
	var written struct {
		Epoch    int64  `json:"epoch"`
		ToBootID string `json:"toBootID"`
	}
	for key, flag := range map[string]*bool{"reboot-now": &n.Told, "reboot-in-progress": &n.Rebooting} {
		text, ok := annotations[prefix+key]
		if !ok {
			continue
		}
		*flag = true
		if err := json.Unmarshal([]byte(text), &written); err != nil {
			return nil, fmt.Errorf("reading %s of node %q: %w", key, n.Name, err)
		}
		n.Epoch = written.Epoch
	}
	if text, ok := annotations[prefix+"last-reboot"]; ok {
		if err := json.Unmarshal([]byte(text), &written); err != nil {
			return nil, fmt.Errorf("reading last-reboot of node %q: %w", n.Name, err)
		}
		n.Done, n.NewBoot = written.Epoch, written.ToBootID
	}
	n.Unschedulable, _, _ = unstructured.NestedBool(u.Object, "spec", "unschedulable") // A missing field is false.
	n.Boot, _, _ = unstructured.NestedString(u.Object, "status", "nodeInfo", "bootID")
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" {
			n.Ready, _ = m["status"].(string)
		}
	}
	return n, nil
}

func readLedger(u *unstructured.Unstructured) (*Ledger, error) {
	l := &Ledger{Name: u.GetName()}
	var found bool
	var err error
	if l.Max, found, err = unstructured.NestedInt64(u.Object, "spec", "maxUnavailable"); err != nil || !found {
		return nil, fmt.Errorf("reading maxUnavailable of RebootGroup %q: must be a number", l.Name)
	}
	slots, _, _ := unstructured.NestedSlice(u.Object, "status", "slots") // The status is empty at first.
	for _, s := range slots {
		m, ok := s.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("reading the slots of RebootGroup %q: an entry is not an object", l.Name)
		}
		node, _ := m["node"].(string)
		uid, _ := m["nodeUID"].(string)
		l.Slots = append(l.Slots, Slot{node, uid})
	}
	return l, nil
}

func (l *Ledger) contains(uid string) bool {
	for _, s := range l.Slots {
		if s.UID == uid {
			return true
		}
	}
	return false
}
