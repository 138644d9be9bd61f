package apisim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

// computed are the resources of Pods that a quota limits, and where a container says how much it takes.
var computed = map[string]string{
	"cpu": "requests.cpu", "requests.cpu": "requests.cpu", "limits.cpu": "limits.cpu",
	"memory": "requests.memory", "requests.memory": "requests.memory", "limits.memory": "limits.memory",
}

// withinCompute refuses a Pod for which a quota leaves no processor time or memory, or that does not specify its
// resources.
func withinCompute(x *exchange, quota *stored, pod object) error {
	hard := asObject(find(quota.obj, "spec.hard"))
	var unsaid, over []string
	for name, from := range computed {
		limit, err := resource.ParseQuantity(text(hard, name))
		if err != nil {
			continue
		}
		wants, said := takes(pod, from)
		if !said {
			unsaid = append(unsaid, name)
			continue
		}
		used := resource.Quantity{}
		for _, o := range x.t.at(x.s.version) {
			if phase := find(o.obj, "status.phase"); o.key.Namespace == quota.key.Namespace && phase != "Succeeded" &&
				phase != "Failed" {
				q, _ := takes(o.obj, from)
				used.Add(q)
			}
		}
		if total := used.DeepCopy(); func() bool { total.Add(wants); return total.Cmp(limit) > 0 }() {
			over = append(over, fmt.Sprintf("requested: %s=%s, used: %[1]s=%s, limited: %[1]s=%s", name, wants.String(),
				used.String(), limit.String()))
		}
	}
	slices.Sort(unsaid)
	slices.Sort(over)
	switch name := text(metaOf(pod), "name"); {
	case len(unsaid) > 0:
		return apierrors.NewForbidden(x.t.res.groupResource(), name, fmt.Errorf("failed quota: %s: must specify %s",
			quota.key.Name, strings.Join(unsaid, ",")))
	case len(over) > 0:
		return apierrors.NewForbidden(x.t.res.groupResource(), name,
			errors.New("exceeded quota: "+quota.key.Name+", "+strings.Join(over, ", ")))
	}
	return nil
}

// takes adds up how much of a resource the containers of a Pod take, but at least as much as each init container. It
// returns false if a container does not specify it.
func takes(pod object, from string) (resource.Quantity, bool) {
	sum, said := resource.Quantity{}, true
	part, name, _ := strings.Cut(from, ".")
	for _, list := range []string{"containers", "initContainers"} {
		all, _ := find(pod, "spec."+list).([]any)
		for _, c := range all {
			amount := text(asObject(asObject(asObject(asObject(c)["resources"])[part])), name)
			q, err := resource.ParseQuantity(amount)
			switch {
			case err != nil:
				said = false
			case list == "containers":
				sum.Add(q)
			case q.Cmp(sum) > 0:
				sum = q
			}
		}
	}
	return sum, said
}
