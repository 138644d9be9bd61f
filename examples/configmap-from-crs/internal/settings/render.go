package settings

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
)

// Reasons of the condition Published.
const (
	reasonPublished = "Published"
	reasonKeyTaken  = "KeyTaken"
	reasonForeign   = "ConfigMapNotOurs"
	reasonRefused   = "ConfigMapRefused"
)

// input is a Setting and its new status.
type input struct {
	setting *api.Setting
	verdict metav1.Condition
}

// render returns the data of the ConfigMap, and the outcome of each Setting once it is
// written. It depends on the Settings alone, not on their order.
func render(all iter.Seq[*api.Setting]) (map[string]string, []input) {
	var inputs []input
	for setting := range all {
		if setting.DeletionTimestamp == nil {
			inputs = append(inputs, input{setting: setting})
		}
	}
	slices.SortFunc(inputs, func(a, b input) int {
		return cmp.Or(a.setting.CreationTimestamp.Compare(b.setting.CreationTimestamp.Time),
			cmp.Compare(a.setting.Name, b.setting.Name))
	})
	data := map[string]string{}
	first := map[string]string{}
	for i, in := range inputs {
		key := in.setting.Spec.Key
		if owner, taken := first[key]; taken {
			inputs[i].verdict = verdict(metav1.ConditionFalse, reasonKeyTaken,
				fmt.Sprintf("key %q is taken by the older Setting %q", key, owner))
			continue
		}
		first[key], data[key] = in.setting.Name, in.setting.Spec.Value
		inputs[i].verdict = verdict(metav1.ConditionTrue, reasonPublished, "")
	}
	return data, inputs
}

func verdict(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: api.Published, Status: status, Reason: reason, Message: message}
}

// refuse says of all inputs that nothing was published, and why.
func refuse(inputs []input, reason, message string) {
	for i := range inputs {
		inputs[i].verdict = verdict(metav1.ConditionFalse, reason, message)
	}
}
