package apisim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

// computed maps the name of a limit in a quota to the field in a container's
// resources that counts against it. For example, the limit "cpu" counts the
// field requests.cpu.
var computed = map[string]string{
	"cpu": "requests.cpu", "requests.cpu": "requests.cpu", "limits.cpu": "limits.cpu",
	"memory": "requests.memory", "requests.memory": "requests.memory", "limits.memory": "limits.memory",
}

// withinCompute refuses a Pod if a quota for processor time or memory is
// exhausted, or if the Pod does not specify these resources.
func withinCompute(x *exchange, quota *stored, pod object) error {
	hard := asObject(find(quota.obj, "spec.hard"))
	var missing, exceeded []string
	for name, path := range computed {
		limit, err := resource.ParseQuantity(text(hard, name))
		if err != nil {
			continue
		}
		wants, specified := consumption(pod, path)
		if !specified {
			missing = append(missing, name)
			continue
		}
		used := resource.Quantity{}
		for _, o := range x.t.objectsAt(x.s.version) {
			if phase := find(o.obj, "status.phase"); o.key.Namespace == quota.key.Namespace && phase != "Succeeded" &&
				phase != "Failed" {
				q, _ := consumption(o.obj, path)
				used.Add(q)
			}
		}
		if total := used.DeepCopy(); func() bool { total.Add(wants); return total.Cmp(limit) > 0 }() {
			exceeded = append(exceeded, fmt.Sprintf("requested: %s=%s, used: %[1]s=%s, limited: %[1]s=%s", name, wants.String(),
				used.String(), limit.String()))
		}
	}
	slices.Sort(missing)
	slices.Sort(exceeded)
	switch name := text(metaOf(pod), "name"); {
	case len(missing) > 0:
		return apierrors.NewForbidden(x.t.res.groupResource(), name, fmt.Errorf("failed quota: %s: must specify %s",
			quota.key.Name, strings.Join(missing, ",")))
	case len(exceeded) > 0:
		return apierrors.NewForbidden(x.t.res.groupResource(), name,
			errors.New("exceeded quota: "+quota.key.Name+", "+strings.Join(exceeded, ", ")))
	}
	return nil
}

// consumption returns how much of a resource a Pod takes. It is the sum over
// its containers, or the maximum over its init containers if the maximum is
// higher. It returns false if a container does not specify the resource.
func consumption(pod object, path string) (resource.Quantity, bool) {
	sum, specified := resource.Quantity{}, true
	part, name, _ := strings.Cut(path, ".")
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := find(pod, "spec."+list).([]any)
		for _, c := range containers {
			amount := text(asObject(asObject(asObject(asObject(c)["resources"])[part])), name)
			q, err := resource.ParseQuantity(amount)
			switch {
			case err != nil:
				specified = false
			case list == "containers":
				sum.Add(q)
			case q.Cmp(sum) > 0:
				sum = q
			}
		}
	}
	return sum, specified
}
