package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// createRules maps kinds, written as group/resource, to a check that only a new
// object must pass. For example, the name of a new CronJob must have at most 52
// characters.
var createRules = map[string]func(obj object) field.ErrorList{
	"/pods": func(obj object) field.ErrorList { return podSpec(Object(obj["spec"]), field.NewPath("spec")) },
	"/replicationcontrollers": func(obj object) field.ErrorList {
		return podSpec(Object(Find(obj, "spec.template.spec")), pathOf("spec.template.spec"))
	},
	"batch/jobs": func(obj object) field.ErrorList {
		if m := Object(Find(obj, "spec.selector.matchLabels")); Find(obj, "spec.manualSelector") != true &&
			m["batch.kubernetes.io/controller-uid"] == nil {
			return field.ErrorList{
				field.Invalid(pathOf("spec.selector"), nil, "`selector` not auto-generated"),
				field.Invalid(pathOf("spec.template.metadata.labels"), nil, "`selector` does not match template `labels`"),
			}
		}
		return jobTemplate(Object(Find(obj, "spec.template.spec")), pathOf("spec.template.spec"))
	},
	"batch/cronjobs": func(obj object) field.ErrorList {
		errs := required(obj, "spec.schedule")
		const maxJobName = 52 // leaves room for the suffix of a Job's name, which has eleven characters
		if name := Text(Meta(obj), "name"); len(name) > maxJobName {
			errs = append(errs, field.Invalid(pathOf("metadata.name"), name, "must be no more than 52 characters"))
		}
		return errs
	},
	"/persistentvolumeclaims": func(obj object) field.ErrorList {
		errs := required(obj, "spec.accessModes")
		if Find(obj, "spec.resources.requests.storage") == nil {
			errs = append(errs, field.Required(pathOf("spec.resources").Key("storage"), ""))
		}
		return errs
	},
	rbac + "/rolebindings": roleRef, rbac + "/clusterrolebindings": roleRef,
	"storage.k8s.io/storageclasses": func(obj object) field.ErrorList { return required(obj, "provisioner") },
	"/events":                       event,
	"events.k8s.io/events":          newEvent,
	"node.k8s.io/runtimeclasses":    func(obj object) field.ErrorList { return required(obj, "handler") },
	"autoscaling/horizontalpodautoscalers": func(obj object) field.ErrorList {
		errs := required(obj, "spec.scaleTargetRef.kind", "spec.scaleTargetRef.name")
		n, _ := Find(obj, "spec.maxReplicas").(int64)
		if n == 0 {
			errs = append(errs, field.Required(pathOf("spec.maxReplicas"), ""))
		}
		if n < 1 {
			errs = append(errs, field.Invalid(pathOf("spec.maxReplicas"), n, "must be greater than 0"))
		}
		return errs
	},
}

// alwaysRules maps kinds, written as group/resource, to a check that every
// write must pass.
var alwaysRules = map[string]func(obj object) field.ErrorList{
	"apps/deployments":        workload,
	"apps/replicasets":        workload,
	"apps/statefulsets":       workload,
	"apps/daemonsets":         workload,
	"/replicationcontrollers": counts("spec.replicas", "spec.minReadySeconds"),
	"batch/jobs": func(obj object) field.ErrorList {
		return append(counts("spec.parallelism", "spec.completions", "spec.backoffLimit",
			"spec.ttlSecondsAfterFinished")(obj), selected(obj)...)
	},
	"coordination.k8s.io/leases": func(obj object) field.ErrorList {
		errs := counts("spec.leaseTransitions")(obj)
		if n, set := Find(obj, "spec.leaseDurationSeconds").(int64); set && n <= 0 {
			errs = append(errs, field.Invalid(pathOf("spec.leaseDurationSeconds"), n, "must be greater than 0"))
		}
		return errs
	},
	"/configmaps": dataKeys,
	"/secrets": func(obj object) field.ErrorList {
		return append(dataKeys(obj), typedSecret(obj)...)
	},
	"/services":                   service,
	"networking.k8s.io/ingresses": ingress,
	rbac + "/roles":               policyRules, rbac + "/clusterroles": policyRules,
	"apps/controllerrevisions": counts("revision"),
	"policy/poddisruptionbudgets": func(obj object) field.ErrorList {
		if Find(obj, "spec.minAvailable") != nil && Find(obj, "spec.maxUnavailable") != nil {
			return field.ErrorList{field.Invalid(field.NewPath("spec"), nil,
				"minAvailable and maxUnavailable cannot be both set")}
		}
		return nil
	},
}

func service(obj object) field.ErrorList {
	spec, path := Object(obj["spec"]), field.NewPath("spec", "ports")
	types := []string{"", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}
	if kind := Text(spec, "type"); !slices.Contains(types, kind) {
		return field.ErrorList{field.NotSupported(pathOf("spec.type"), kind, types[1:])}
	}
	ports, _ := spec["ports"].([]any)
	if len(ports) == 0 && spec["type"] != "ExternalName" && spec["clusterIP"] != "None" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for i, v := range ports {
		p := Object(v)
		if n := Number(p, "port"); n < 1 || n > 65535 {
			errs = append(errs, field.Invalid(path.Index(i).Child("port"), n, "must be between 1 and 65535, inclusive"))
		}
		if n, ok := p["targetPort"].(int64); ok && (n < 1 || n > 65535) {
			errs = append(errs, field.Invalid(path.Index(i).Child("targetPort"), n, "must be between 1 and 65535, inclusive"))
		}
		if len(ports) > 1 && Text(p, "name") == "" {
			errs = append(errs, field.Required(path.Index(i).Child("name"), ""))
		}
	}
	return errs
}

func ingress(obj object) field.ErrorList {
	rules, _ := Find(obj, "spec.rules").([]any)
	if len(rules) == 0 && Find(obj, "spec.defaultBackend") == nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), nil,
			"either `defaultBackend` or `rules` must be specified")}
	}
	var errs field.ErrorList
	for i, rule := range rules {
		paths, _ := Find(Object(rule), "http.paths").([]any)
		for j, p := range paths {
			if Text(Object(p), "pathType") == "" {
				errs = append(errs, field.Required(field.NewPath("spec", "rules").Index(i).Child("http", "paths").
					Index(j).Child("pathType"), "pathType must be specified"))
			}
		}
	}
	return errs
}

func policyRules(obj object) field.ErrorList {
	var errs field.ErrorList
	rules, _ := obj["rules"].([]any)
	for i, rule := range rules {
		if verbs, _ := Object(rule)["verbs"].([]any); len(verbs) == 0 {
			errs = append(errs, field.Required(field.NewPath("rules").Index(i).Child("verbs"), ""))
		}
	}
	return errs
}

// prolonged refuses updates that extend the active deadline of a Pod.
func prolonged(obj, old object) field.ErrorList {
	oldDeadline, wasSet := Find(old, "spec.activeDeadlineSeconds").(int64)
	deadline, set := Find(obj, "spec.activeDeadlineSeconds").(int64)
	if wasSet && (!set || deadline > oldDeadline) {
		return field.ErrorList{field.Invalid(pathOf("spec.activeDeadlineSeconds"), deadline,
			"must be less than or equal to previous value")}
	}
	return nil
}

// tolerated refuses updates that remove a toleration from a Pod.
func tolerated(obj, old object) field.ErrorList {
	tolerations, _ := Find(obj, "spec.tolerations").([]any)
	oldTolerations, _ := Find(old, "spec.tolerations").([]any)
	for _, t := range oldTolerations {
		if Tolerates(Object(t), corev1.TaintNodeNotReady) || Tolerates(Object(t), corev1.TaintNodeUnreachable) {
			continue // the real server adds these again
		}
		if !slices.ContainsFunc(tolerations, func(v any) bool {
			kept, had := maps.Clone(Object(v)), maps.Clone(Object(t))
			delete(kept, "tolerationSeconds")
			delete(had, "tolerationSeconds")
			return reflect.DeepEqual(kept, had)
		}) {
			return field.ErrorList{field.Forbidden(pathOf("spec.tolerations"),
				"existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}

func counts(paths ...string) func(obj object) field.ErrorList {
	return func(obj object) field.ErrorList {
		var errs field.ErrorList
		for _, p := range paths {
			if n, _ := Find(obj, p).(int64); n < 0 {
				errs = append(errs, field.Invalid(pathOf(p), n, "must be greater than or equal to 0"))
			}
		}
		return errs
	}
}

func required(obj object, paths ...string) field.ErrorList {
	var errs field.ErrorList
	for _, p := range paths {
		if Empty(Find(obj, p)) {
			errs = append(errs, field.Required(pathOf(p), ""))
		}
	}
	return errs
}

const maxData = 1 << 20 // bytes of a Secret or ConfigMap

func dataKeys(obj object) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, f := range []string{"data", "binaryData"} {
		for k, v := range Object(obj[f]) {
			s, _ := v.(string)
			size += len(s)
			if k == "" || len(k) > 253 || strings.Trim(k, keyLetters) != "" || k == "." || strings.HasPrefix(k, "..") {
				errs = append(errs, field.Invalid(field.NewPath(f).Key(k), k, "a valid config key must consist of "+
					"alphanumeric characters, '-', '_' or '.'"))
			}
		}
	}
	for k := range Object(obj["binaryData"]) {
		if _, duplicate := Object(obj["data"])[k]; duplicate {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(k), k, "duplicate of key present in binaryData"))
		}
	}
	if size > maxData {
		errs = append(errs, field.TooLong(field.NewPath("data"), "", maxData))
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

const keyLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

func roleRef(obj object) field.ErrorList {
	errs := required(obj, "roleRef.name")
	if kind := Find(obj, "roleRef.kind"); kind != "Role" && kind != "ClusterRole" || kind == "Role" &&
		obj["kind"] == "ClusterRoleBinding" {
		errs = append(errs, field.NotSupported(pathOf("roleRef.kind"), kind, []string{"Role", "ClusterRole"}))
	}
	return errs
}

func jobTemplate(spec object, path *field.Path) field.ErrorList {
	errs := podSpec(spec, path)
	if p := spec["restartPolicy"]; p == nil || p == "Always" {
		errs = append(errs, field.Required(path.Child("restartPolicy"), `valid values: "OnFailure", "Never"`))
	}
	return errs
}

// podSpec finds the mistakes in containers that programs make most often:
// missing, invalid or repeated names, missing images, and mounts of volumes that
// do not exist.
func podSpec(spec object, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	path = path.Child("containers")
	list, _ := spec["containers"].([]any)
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	names, volumes := map[string]bool{}, []string{}
	mountable, _ := spec["volumes"].([]any)
	for _, v := range mountable {
		volumes = append(volumes, Text(Object(v), "name"))
	}
	for i, v := range list {
		c := Object(v)
		name := Text(c, "name")
		if name == "" {
			errs = append(errs, field.Required(path.Index(i).Child("name"), ""))
		} else if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), name, strings.Join(faults, ", ")))
		} else if names[name] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), name))
		}
		names[name] = true
		mounts, _ := c["volumeMounts"].([]any)
		for j, v := range mounts {
			if volume := Text(Object(v), "name"); !slices.Contains(volumes, volume) {
				errs = append(errs, field.NotFound(path.Index(i).Child("volumeMounts").Index(j).Child("name"), volume))
			}
		}
		if Text(c, "image") == "" {
			errs = append(errs, field.Required(path.Index(i).Child("image"), ""))
		}
	}
	return errs
}

// selected checks that a selector matches the labels of the template.
func selected(obj object) field.ErrorList {
	var errs field.ErrorList
	var selector metav1.LabelSelector
	raw, _ := json.Marshal(Find(obj, "spec.selector"))
	if Find(obj, "spec.selector") == nil {
		errs = append(errs, field.Required(pathOf("spec.selector"), ""),
			field.Invalid(pathOf("spec.template.metadata.labels"), nil, "`selector` does not match template `labels`"))
	} else if json.Unmarshal(raw, &selector) == nil {
		s, err := metav1.LabelSelectorAsSelector(&selector)
		marks := labels.Set{}
		for k, v := range Object(Find(obj, "spec.template.metadata.labels")) {
			marks[k] = fmt.Sprint(v)
		}
		switch {
		case len(selector.MatchLabels)+len(selector.MatchExpressions) == 0:
			errs = append(errs, field.Invalid(pathOf("spec.selector"), selector, "empty selector is invalid"))
		case err == nil && !s.Matches(marks):
			errs = append(errs, field.Invalid(pathOf("spec.template.metadata.labels"), marks,
				"`selector` does not match template `labels`"))
		}
	}
	return errs
}

// workload checks the numbers, the selector and the template of a workload. The
// selector must match the labels of the template, whose restartPolicy must be
// Always.
func workload(obj object) field.ErrorList {
	path := pathOf("spec.template.spec")
	errs := counts("spec.replicas", "spec.minReadySeconds", "spec.revisionHistoryLimit")(obj)
	errs = append(errs, selected(obj)...)
	if p := Find(obj, "spec.template.spec.restartPolicy"); p != nil && p != "Always" {
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), p, []string{"Always"}))
	}
	return append(errs, podSpec(Object(Find(obj, path.String())), path)...)
}

// Tolerates reports whether the key and the effect of a toleration match the
// named taint with the effect NoExecute. It ignores the operator and the value.
func Tolerates(toleration object, taint string) bool {
	key, effect := Text(toleration, "key"), Text(toleration, "effect")
	return (key == taint || key == "") && (effect == "NoExecute" || effect == "")
}
