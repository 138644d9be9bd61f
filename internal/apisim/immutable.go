package apisim

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// immutables lists the fields of built-in kinds that cannot change, by group/resource. The server answers
// Invalid, or Forbidden for those with a "!". After a colon stands the field that its error names, where it differs.
var immutables = map[string][]string{
	"/secrets":  {"type"},
	"/services": {"spec.clusterIP:spec.clusterIPs[0]"},
	"/persistentvolumes": {
		"!spec.hostPath:spec.persistentvolumesource", "!spec.csi:spec.persistentvolumesource",
		"spec.volumeMode",
	},
	"apps/deployments":         {"spec.selector"},
	"apps/replicasets":         {"spec.selector"},
	"apps/daemonsets":          {"spec.selector"},
	"apps/controllerrevisions": {"data"},
	"batch/jobs": {
		"spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy",
	},
	"discovery.k8s.io/endpointslices":  {"addressType"},
	"networking.k8s.io/ingressclasses": {"spec.controller"},
	"node.k8s.io/runtimeclasses":       {"handler"},
	rbac + "/rolebindings":             {"roleRef"},
	rbac + "/clusterrolebindings":      {"roleRef"},
	"scheduling.k8s.io/priorityclasses": {
		"!value", "preemptionPolicy",
	},
	"storage.k8s.io/storageclasses": {"parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"},
	"storage.k8s.io/csidrivers":     {"spec.attachRequired", "spec.volumeLifecycleModes"},
}

// specExcept lists the kinds whose spec cannot change but for these fields.
var specExcept = map[string][]string{
	"/persistentvolumeclaims": {"resources", "volumeAttributesClassName", "volumeName"},
	"apps/statefulsets": {
		"replicas", "ordinals", "template", "updateStrategy", "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
		"revisionHistoryLimit",
	},
	"/pods": {"activeDeadlineSeconds", "tolerations", "schedulingGates"},
}

// rulesOf returns the rules of a built-in kind.
func rulesOf(group, resource string) rules {
	kind := group + "/" + resource
	checks := []func(obj, old object) field.ErrorList{}
	if paths := immutables[kind]; paths != nil {
		checks = append(checks, func(obj, old object) field.ErrorList { return changed(obj, old, paths) })
	}
	if fields := specExcept[kind]; fields != nil {
		checks = append(checks, func(obj, old object) field.ErrorList {
			return changedSpec(obj, old, fields, kind == "/pods")
		})
	}
	switch kind {
	case "/secrets", "/configmaps":
		checks = append(checks, sealed)
	case "batch/jobs":
		checks = append(checks, changedJob)
	case "/persistentvolumeclaims":
		checks = append(checks, shrunk)
	case "/pods":
		checks = append(checks, prolonged, tolerated)
	}
	r := rules{create: createRules[kind]}
	always := alwaysRules[kind]
	if always != nil {
		first := r.create
		r.create = func(obj object) field.ErrorList {
			errs := always(obj)
			if first != nil {
				errs = append(errs, first(obj)...)
			}
			return errs
		}
		checks = append(checks, func(obj, old object) field.ErrorList {
			if len(always(old)) > 0 { // it was loaded so
				return nil
			}
			return always(obj)
		})
	}
	if len(checks) > 0 {
		r.update = func(obj, old object) field.ErrorList {
			var errs field.ErrorList
			for _, check := range checks {
				errs = append(errs, check(obj, old)...)
			}
			return errs
		}
	}
	return r
}

// find returns the value at "spec.selector"; nil: it is not there.
func find(obj object, path string) any {
	var v any = obj
	for step := range strings.SplitSeq(path, ".") {
		node, _ := v.(object)
		v = node[step]
	}
	return v
}

func pathOf(s string) *field.Path {
	first, rest, more := strings.Cut(s, ".")
	if !more {
		return field.NewPath(first)
	}
	return field.NewPath(first, strings.Split(rest, ".")...)
}

func changed(obj, old object, paths []string) field.ErrorList {
	var errs field.ErrorList
	for _, p := range paths {
		p, forbidden := strings.CutPrefix(p, "!")
		p, shown, renamed := strings.Cut(p, ":")
		if !renamed {
			shown = p
		}
		now, was := find(obj, p), find(old, p)
		if p == "spec.clusterIP" && (now == nil || was == nil) || reflect.DeepEqual(now, was) {
			continue
		}
		if forbidden {
			errs = append(errs, field.Forbidden(pathOf(shown), "updates to "+shown+" are forbidden."))
		} else {
			errs = append(errs, field.Invalid(pathOf(shown), now, "field is immutable"))
		}
	}
	return errs
}

// changedSpec refuses changes of the spec but for some fields; the images of a pod's containers may change, too.
func changedSpec(obj, old object, fields []string, images bool) field.ErrorList {
	now, was := asObject(obj["spec"]), asObject(old["spec"])
	for _, other := range []object{now, was} {
		for k := range other {
			if slices.Contains(fields, k) || reflect.DeepEqual(now[k], was[k]) {
				continue
			}
			if images && strings.HasSuffix(strings.ToLower(k), "containers") {
				if sameButImages(now[k], was[k]) {
					continue
				}
				more, _ := now[k].([]any)
				if less, _ := was[k].([]any); len(more) != len(less) {
					return field.ErrorList{field.Forbidden(field.NewPath("spec", k),
						"pod updates may not add or remove containers")}
				}
			}
			return field.ErrorList{field.Forbidden(field.NewPath("spec"), "updates to spec for fields other than '"+
				strings.Join(fields, "', '")+"' are forbidden")}
		}
	}
	return nil
}

func asObject(v any) object {
	o, _ := v.(object)
	return o
}

func sameButImages(a, b any) bool {
	now, _ := a.([]any)
	was, _ := b.([]any)
	return slices.EqualFunc(now, was, func(x, y any) bool {
		one, other := withoutImage(asObject(x)), withoutImage(asObject(y))
		return reflect.DeepEqual(one, other)
	})
}

func withoutImage(c object) object {
	all := object{}
	for k, v := range c {
		if k != "image" {
			all[k] = v
		}
	}
	return all
}

// sealed holds Secrets and ConfigMaps that are immutable.
func sealed(obj, old object) field.ErrorList {
	if old["immutable"] != true {
		return nil
	}
	var errs field.ErrorList
	if obj["immutable"] != true {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
	}
	for _, f := range []string{"data", "binaryData"} {
		if !reflect.DeepEqual(obj[f], old[f]) {
			errs = append(errs, field.Forbidden(field.NewPath(f), "field is immutable when `immutable` is set"))
		}
	}
	return errs
}

// changedJob refuses another template, unless the Job is suspended and has not started, and other completions.
func changedJob(obj, old object) field.ErrorList {
	var errs field.ErrorList
	suspended := find(old, "spec.suspend") == true && find(old, "status.startTime") == nil
	if !suspended && !reflect.DeepEqual(find(obj, "spec.template"), find(old, "spec.template")) {
		errs = append(errs, field.Invalid(pathOf("spec.template"), nil, "field is immutable"))
	}
	if n := find(obj, "spec.completions"); n != find(old, "spec.completions") && n == find(obj, "spec.parallelism") &&
		find(obj, "spec.completionMode") == "Indexed" {
		return errs // an elastic Indexed Job has both changed at once
	}
	return append(errs, changed(obj, old, []string{"spec.completions"})...)
}

// shrunk refuses a claim for less storage, and for other resources before it is bound.
func shrunk(obj, old object) field.ErrorList {
	if was := text(asObject(old["spec"]), "volumeName"); was != "" && was != text(asObject(obj["spec"]), "volumeName") {
		return field.ErrorList{field.Forbidden(field.NewPath("spec"), "spec is immutable after creation except "+
			"resources.requests and volumeAttributesClassName for bound claims")}
	}
	if reflect.DeepEqual(find(obj, "spec.resources"), find(old, "spec.resources")) {
		return nil
	}
	now, err := resource.ParseQuantity(text(asObject(find(obj, "spec.resources.requests")), "storage"))
	was, err2 := resource.ParseQuantity(text(asObject(find(old, "spec.resources.requests")), "storage"))
	if find(old, "status.phase") == "Bound" && err == nil && err2 == nil {
		if now.Cmp(was) < 0 {
			return field.ErrorList{field.Forbidden(pathOf("spec.resources.requests.storage"),
				"field can not be less than previous value")}
		}
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"),
		"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")}
}
