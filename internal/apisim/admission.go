package apisim

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/apisim/rules"
)

// admitPod adds the server's admission changes to a new Pod: a priority, and
// tolerations for a lost node. It refuses a Pod whose PriorityClass does not
// exist, or whose priority or preemption policy contradicts its PriorityClass.
func admitPod(x *exchange, obj object) error {
	spec := asObject(obj["spec"])
	if spec == nil {
		return nil
	}
	if err := prioritize(spec, x.s.tables); err != nil && !x.s.opts.Incomplete {
		return apierrors.NewForbidden(x.t.res.groupResource(), text(metaOf(obj), "name"), err)
	}
	list, _ := spec["tolerations"].([]any)
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(list, func(v any) bool { return rules.Tolerates(asObject(v), taint) }) {
			list = append(list, object{
				"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300),
			})
		}
	}
	spec["tolerations"] = list
	return nil
}

// prioritize gives a new Pod the priority and the preemption policy of its
// PriorityClass, or of the default PriorityClass. It returns the real server's
// errors.
func prioritize(spec object, tables map[schema.GroupVersionResource]*table) error {
	classes := tables[schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")]
	class := cmp.Or(text(spec, "priorityClassName"), defaultClass(classes))
	builtin := map[string]int64{"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
	priority, found := builtin[class]
	policy := string(corev1.PreemptLowerPriority)
	if have := classes.objects[types.NamespacedName{Name: class}]; have != nil && !found {
		priority, policy, found = number(have.obj, "value"), cmp.Or(text(have.obj, "preemptionPolicy"), policy), true
	}
	const computed = "must not be provided in pod spec; priority admission controller computed %v from the given " +
		"PriorityClass name"
	switch given := text(spec, "preemptionPolicy"); {
	case !found:
		return fmt.Errorf("no PriorityClass with name %s was found", class)
	case spec["priority"] != nil && number(spec, "priority") != priority:
		return fmt.Errorf("the integer value of priority (%d) "+computed, number(spec, "priority"), priority)
	case given != "" && given != policy:
		return fmt.Errorf("the string value of PreemptionPolicy (%s) "+computed, given, policy)
	}
	if class != "" {
		spec["priorityClassName"] = class
	}
	spec["priority"], spec["preemptionPolicy"] = priority, policy
	return nil
}

// admitClass refuses a PriorityClass that would become a second default, unless
// Options.Incomplete is set.
func admitClass(x *exchange, obj object) error {
	name, existing := text(metaOf(obj), "name"), defaultClass(x.t)
	if obj["globalDefault"] != true || existing == "" || existing == name || x.s.opts.Incomplete {
		return nil
	}
	return apierrors.NewForbidden(x.t.res.groupResource(), name,
		fmt.Errorf("PriorityClass %s is already marked as default. Only one default can exist", existing))
}

// defaultClass returns the name of the PriorityClass of Pods that do not name
// one, or "" if no PriorityClass is the default. If several are, it returns the
// one with the lowest value.
func defaultClass(classes *table) string {
	name, lowest := "", int64(0)
	for key, have := range classes.objects {
		value := number(have.obj, "value")
		if have.obj["globalDefault"] == true && (name == "" || value < lowest || value == lowest && key.Name < name) {
			name, lowest = key.Name, value
		}
	}
	return name
}
