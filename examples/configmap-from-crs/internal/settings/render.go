package settings

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
)

// These are the reasons of the condition Published.
const (
	reasonPublished = "Published"
	reasonKeyTaken  = "KeyTaken"
	reasonForeign   = "ConfigMapNotOurs"
	reasonRefused   = "ConfigMapRefused"
)

// input is a Setting and its new condition.
type input struct {
	setting *api.Setting
	verdict metav1.Condition
}

// render returns the data of the ConfigMap. It also returns each Setting with
// the condition to report after the ConfigMap has been written. Both depend
// only on the Settings, not on their order.
func render(settings iter.Seq[*api.Setting]) (map[string]string, []input) {
	var inputs []input
	for setting := range settings {
		if setting.DeletionTimestamp == nil {
			inputs = append(inputs, input{setting: setting})
		}
	}
	slices.SortFunc(inputs, func(a, b input) int {
		return cmp.Or(a.setting.CreationTimestamp.Compare(b.setting.CreationTimestamp.Time),
			cmp.Compare(a.setting.Name, b.setting.Name))
	})
	data := map[string]string{}
	owners := map[string]string{}
	for i, item := range inputs {
		key := item.setting.Spec.Key
		if owner, taken := owners[key]; taken {
			inputs[i].verdict = verdict(metav1.ConditionFalse, reasonKeyTaken,
				fmt.Sprintf("key %q is taken by the older Setting %q", key, owner))
			continue
		}
		owners[key], data[key] = item.setting.Name, item.setting.Spec.Value
		inputs[i].verdict = verdict(metav1.ConditionTrue, reasonPublished, "")
	}
	return data, inputs
}

func verdict(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: api.Published, Status: status, Reason: reason, Message: message}
}

// refuse marks all inputs as not published, with the reason.
func refuse(inputs []input, reason, message string) {
	for i := range inputs {
		inputs[i].verdict = verdict(metav1.ConditionFalse, reason, message)
	}
}
