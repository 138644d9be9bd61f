package protocol

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// MayUncordon reports whether the agent's own cordon is still in place. If
// another client has uncordoned and cordoned the node again, the cordon is that
// client's. The server has then recorded that client as the manager of the
// field spec.unschedulable.
func MayUncordon(node *corev1.Node, p *Progress) bool {
	if !p.CordonedByAgent || !node.Spec.Unschedulable {
		return false
	}
	recorded, byAgent := false, false
	for _, entry := range node.ManagedFields {
		if entry.FieldsV1 == nil || !hasUnschedulable(entry.FieldsV1.GetRawBytes()) {
			continue
		}
		recorded = true
		byAgent = byAgent || entry.Manager == AgentManager
	}
	return byAgent || !recorded
}

func hasUnschedulable(fields []byte) bool {
	var owned struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if err := json.Unmarshal(fields, &owned); err != nil {
		return false
	}
	_, ok := owned.Spec["f:unschedulable"]
	return ok
}
