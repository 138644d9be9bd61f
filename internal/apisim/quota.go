package apisim

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var quotas = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}

// withinQuota refuses an object if a ResourceQuota of its namespace is
// exhausted. It counts objects and adds up the resources of Pods. It does not
// maintain the status of quotas.
func (x *exchange) withinQuota(namespace string, obj object) error {
	objects := x.s.tables[quotas].objects
	if len(objects) == 0 || !x.t.res.Namespaced {
		return nil
	}
	names := []corev1.ResourceName{corev1.ResourceName("count/" + x.t.res.Resource)}
	if x.t.res.Group == "" {
		names = append(names, corev1.ResourceName(x.t.res.Resource))
	} else {
		names[0] += corev1.ResourceName("." + x.t.res.Group)
	}
	for _, q := range x.s.tables[quotas].objectsAt(x.s.version) {
		if q.key.Namespace != namespace {
			continue
		}
		if isPod(&x.t.res) {
			if err := withinCompute(x, q, obj); err != nil {
				return err
			}
		}
		hard := asObject(find(q.obj, "spec.hard"))
		for _, name := range names {
			limit, err := resource.ParseQuantity(text(hard, string(name)))
			if err != nil {
				continue
			}
			used := x.t.count(namespace)
			if used+1 > limit.Value() {
				return apierrors.NewForbidden(x.t.res.groupResource(), x.r.Name, fmt.Errorf(
					"exceeded quota: %s, requested: %s=1, used: %[2]s=%[3]d, limited: %[2]s=%[4]s",
					q.key.Name, strings.ToLower(string(name)), used, limit.String()))
			}
		}
	}
	return nil
}

func (t *table) count(namespace string) int64 {
	var n int64
	for key := range t.objects {
		if key.Namespace == namespace {
			n++
		}
	}
	return n
}
