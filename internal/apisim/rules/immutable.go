package rules

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// immutables lists the fields of built-in kinds that cannot change, by
// group/resource. The server answers Invalid, or Forbidden for fields with a
// "!". If the error names a different field, that field follows after a colon.
var immutables = map[string][]string{
	"/secrets":  {"type"},
	"/services": {"spec.clusterIP:spec.clusterIPs[0]"},
	"/persistentvolumes": {
		"!spec.hostPath:spec.persistentvolumesource", "!spec.csi:spec.persistentvolumesource",
		"!spec.nfs:spec.persistentvolumesource", "spec.volumeMode:volumeMode",
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
	"storage.k8s.io/csidrivers":     {"spec.attachRequired:spec.attachedRequired", "spec.volumeLifecycleModes"},
}

// specExcept maps kinds whose spec cannot change to the fields of the spec that
// can.
var specExcept = map[string][]string{
	"/persistentvolumeclaims": {"resources", "volumeAttributesClassName", "volumeName"},
	"apps/statefulsets": {
		"replicas", "ordinals", "template", "updateStrategy", "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
		"revisionHistoryLimit",
	},
	"/pods": {"activeDeadlineSeconds", "tolerations", "schedulingGates"},
}

// immutableTexts maps fields to the server's explanation, where it is not the
// usual one.
var immutableTexts = map[string]string{
	"roleRef":            "cannot change roleRef",
	"spec.clusterIPs[0]": "may not change once set",
}

// specTexts maps the same kinds to the server's error message. Each kind has
// its own wording for the fields that can change. The server appends a diff to
// some messages, which is left out here.
var specTexts = map[string]string{
	"/persistentvolumeclaims": "spec is immutable after creation except resources.requests and " +
		"volumeAttributesClassName for bound claims",
	"apps/statefulsets": "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', " +
		"'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are " +
		"forbidden",
	"/pods": "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
		"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
}

// Lookup returns the rules of a built-in kind.
func Lookup(group, resource string) Rules {
	kind := group + "/" + resource
	checks := []func(obj, old object) field.ErrorList{}
	if paths := immutables[kind]; paths != nil {
		checks = append(checks, func(obj, old object) field.ErrorList { return changed(obj, old, paths) })
	}
	if fields := specExcept[kind]; fields != nil {
		checks = append(checks, func(obj, old object) field.ErrorList {
			return changedSpec(obj, old, fields, kind)
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
	r := Rules{Create: createRules[kind]}
	checkAlways := alwaysRules[kind]
	if checkAlways != nil {
		createRule := r.Create
		r.Create = func(obj object) field.ErrorList {
			errs := checkAlways(obj)
			if createRule != nil {
				errs = append(errs, createRule(obj)...)
			}
			return errs
		}
		checks = append(checks, func(obj, old object) field.ErrorList {
			if len(checkAlways(old)) > 0 { // the object was loaded in this state
				return nil
			}
			return checkAlways(obj)
		})
	}
	if len(checks) > 0 {
		r.Update = func(obj, old object) field.ErrorList {
			var errs field.ErrorList
			for _, check := range checks {
				errs = append(errs, check(obj, old)...)
			}
			return errs
		}
	}
	return r
}

func pathOf(s string) *field.Path {
	head, tail, found := strings.Cut(s, ".")
	if !found {
		return field.NewPath(head)
	}
	return field.NewPath(head, strings.Split(tail, ".")...)
}

func changed(obj, old object, paths []string) field.ErrorList {
	var errs field.ErrorList
	for _, p := range paths {
		p, forbidden := strings.CutPrefix(p, "!")
		p, shown, renamed := strings.Cut(p, ":")
		if !renamed {
			shown = p
		}
		value, oldValue := Find(obj, p), Find(old, p)
		if p == "spec.clusterIP" && (value == nil || oldValue == nil) || reflect.DeepEqual(value, oldValue) {
			continue
		}
		if forbidden {
			errs = append(errs, field.Forbidden(pathOf(shown), "updates to "+shown+" are forbidden."))
		} else {
			errs = append(errs, field.Invalid(pathOf(shown), value, cmp.Or(immutableTexts[shown], "field is immutable")))
		}
	}
	return errs
}

// changedSpec refuses changes of the spec except for the given fields. The
// images of a Pod's containers may change, too.
func changedSpec(obj, old object, fields []string, kind string) field.ErrorList {
	newSpec, oldSpec := Object(obj["spec"]), Object(old["spec"])
	for _, spec := range []object{newSpec, oldSpec} {
		for k := range spec {
			if slices.Contains(fields, k) || reflect.DeepEqual(newSpec[k], oldSpec[k]) {
				continue
			}
			if kind == "/pods" && strings.HasSuffix(strings.ToLower(k), "containers") {
				if sameButImages(newSpec[k], oldSpec[k]) {
					continue
				}
				newList, _ := newSpec[k].([]any)
				if oldList, _ := oldSpec[k].([]any); len(newList) != len(oldList) {
					return field.ErrorList{field.Forbidden(field.NewPath("spec", k),
						"pod updates may not add or remove containers")}
				}
			}
			return field.ErrorList{field.Forbidden(field.NewPath("spec"), specTexts[kind])}
		}
	}
	return nil
}

func sameButImages(a, b any) bool {
	newList, _ := a.([]any)
	oldList, _ := b.([]any)
	return slices.EqualFunc(newList, oldList, func(x, y any) bool {
		newItem, oldItem := withoutImage(Object(x)), withoutImage(Object(y))
		return reflect.DeepEqual(newItem, oldItem)
	})
}

func withoutImage(c object) object {
	rest := object{}
	for k, v := range c {
		if k != "image" {
			rest[k] = v
		}
	}
	return rest
}

// sealed refuses changes to Secrets and ConfigMaps that are marked as
// immutable.
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

// changedJob refuses a new template unless the Job is suspended and has not
// started, and refuses a new number of completions.
func changedJob(obj, old object) field.ErrorList {
	var errs field.ErrorList
	suspended := Find(old, "spec.suspend") == true && Find(old, "status.startTime") == nil
	if !suspended && !reflect.DeepEqual(Find(obj, "spec.template"), Find(old, "spec.template")) {
		errs = append(errs, field.Invalid(pathOf("spec.template"), nil, "field is immutable"))
	}
	if n := Find(obj, "spec.completions"); n != Find(old, "spec.completions") && n == Find(obj, "spec.parallelism") &&
		Find(obj, "spec.completionMode") == "Indexed" {
		return errs // both fields of an elastic Indexed Job may change together
	}
	return append(errs, changed(obj, old, []string{"spec.completions"})...)
}

// shrunk refuses updates that reduce the storage of a claim, or that change its
// resources before it is bound.
func shrunk(obj, old object) field.ErrorList {
	oldVolume, newVolume := Text(Object(old["spec"]), "volumeName"), Text(Object(obj["spec"]), "volumeName")
	if oldVolume != "" && oldVolume != newVolume {
		return field.ErrorList{field.Forbidden(field.NewPath("spec"), specTexts["/persistentvolumeclaims"])}
	}
	if reflect.DeepEqual(Find(obj, "spec.resources"), Find(old, "spec.resources")) {
		return nil
	}
	newSize, err := resource.ParseQuantity(Text(Object(Find(obj, "spec.resources.requests")), "storage"))
	oldValue, err2 := resource.ParseQuantity(Text(Object(Find(old, "spec.resources.requests")), "storage"))
	if Find(old, "status.phase") == "Bound" && err == nil && err2 == nil {
		if newSize.Cmp(oldValue) < 0 {
			return field.ErrorList{field.Forbidden(pathOf("spec.resources.requests.storage"),
				"field can not be less than previous value")}
		}
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), specTexts["/persistentvolumeclaims"])}
}
