package apisim

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// workloads are the kinds that make Pods.
func (in *inspectors) workloads() {
	check[appsv1.DeploymentSpec](in, func(o object, path *field.Path) field.ErrorList {
		errs := endless(o, path)
		deadline, has := o["progressDeadlineSeconds"].(int64)
		if has && deadline <= number(o, "minReadySeconds") {
			errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), deadline,
				"must be greater than minReadySeconds"))
		}
		return errs
	})
	check[appsv1.DeploymentStrategy](in, func(o object, path *field.Path) field.ErrorList {
		rolling := path.Child("rollingUpdate")
		switch t := text(o, "type"); {
		case t == "Recreate" && o["rollingUpdate"] != nil:
			return field.ErrorList{field.Forbidden(rolling, "may not be specified when strategy `type` is 'Recreate'")}
		case t != "" && t != "Recreate" && t != "RollingUpdate":
			return field.ErrorList{field.NotSupported(path, t, []string{"Recreate", "RollingUpdate"})}
		case t == "RollingUpdate" && none(o, "maxSurge") && none(o, "maxUnavailable"):
			return field.ErrorList{field.Invalid(rolling.Child("maxUnavailable"), 0,
				"may not be 0 when `maxSurge` is 0")}
		}
		return nil
	})
	check[appsv1.ReplicaSetSpec](in, endless)
	check[appsv1.DaemonSetSpec](in, endless)
	check[appsv1.StatefulSetSpec](in, func(o object, path *field.Path) field.ErrorList {
		errs := endless(o, path)
		if p := text(o, "podManagementPolicy"); !slices.Contains([]string{"", "OrderedReady", "Parallel"}, p) {
			errs = append(errs, field.Invalid(path.Child("podManagementPolicy"), p,
				"must be 'OrderedReady' or 'Parallel'"))
		}
		u := text(asObject(o["updateStrategy"]), "type")
		if !slices.Contains([]string{"", "RollingUpdate", "OnDelete"}, u) {
			errs = append(errs, field.Invalid(path.Child("updateStrategy"), u, "must be 'RollingUpdate' or 'OnDelete'"))
		}
		return errs
	})
	check[appsv1.DaemonSetUpdateStrategy](in, func(o object, path *field.Path) field.ErrorList {
		if text(o, "type") == "RollingUpdate" && none(o, "maxSurge") && none(o, "maxUnavailable") {
			return field.ErrorList{field.Required(path.Child("rollingUpdate", "maxUnavailable"),
				"cannot be 0 when maxSurge is 0")}
		}
		return nil
	})
	check[batchv1.JobSpec](in, func(o object, path *field.Path) field.ErrorList {
		return atLeast(o, path, 0, "activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit", "parallelism",
			"completions")
	})
	enum(in, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	check[batchv1.CronJobSpec](in, cronJob)
}

// endless Pods are those of a workload that keeps them running.
func endless(o object, path *field.Path) field.ErrorList {
	if find(o, "template.spec.activeDeadlineSeconds") == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("template", "spec", "activeDeadlineSeconds"), "must not be set")}
}

// none reports whether a number or percentage of a rolling update is zero.
func none(o object, name string) bool {
	v := asObject(o["rollingUpdate"])[name]
	return v == int64(0) || v == "0" || v == "0%"
}

func cronJob(o object, path *field.Path) field.ErrorList {
	errs := atLeast(o, path, 0, "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
	if s := text(o, "schedule"); s != "" {
		if fault := badSchedule(s); fault != "" {
			errs = append(errs, field.Invalid(path.Child("schedule"), s, fault))
		}
	}
	if zone, set := o["timeZone"].(string); set {
		_, err := time.LoadLocation(zone)
		_, known := time.LoadLocation("America/New_York") // there may be no time zones here
		if zone == "" || strings.EqualFold(zone, "local") || err != nil && known == nil {
			errs = append(errs, field.Invalid(path.Child("timeZone"), zone, fmt.Sprint(err)))
		}
	}
	template := path.Child("jobTemplate", "spec", "template", "spec")
	return append(errs, jobTemplate(asObject(find(o, "jobTemplate.spec.template.spec")), template)...)
}

// badSchedule returns what is wrong with a schedule, or "".
func badSchedule(s string) string {
	if strings.HasPrefix(s, "@") {
		words := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
		if every, is := strings.CutPrefix(s, "@every "); is {
			if _, err := time.ParseDuration(every); err == nil {
				return ""
			}
		} else if slices.Contains(words, s) {
			return ""
		}
		return "unrecognized descriptor: " + s
	}
	if strings.Contains(s, "TZ") {
		return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
	}
	fields := strings.Fields(s)
	if len(fields) != 5 {
		return "expected exactly 5 fields, found " + strconv.Itoa(len(fields))
	}
	months := "jan feb mar apr may jun jul aug sep oct nov dec"
	limits := [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	for i, names := range []string{"", "", "", months, "sun mon tue wed thu fri sat"} {
		for part := range strings.SplitSeq(fields[i], ",") {
			if !cronRange(strings.ToLower(part), limits[i], strings.Fields(names)) {
				return "end of range or value not within limits: " + part
			}
		}
	}
	return ""
}

// cronRange reports whether a part of a schedule is like *, */5, 3, 1-5 or 1-5/2, within limits.
func cronRange(part string, limits [2]int, names []string) bool {
	span, step, stepped := strings.Cut(part, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1) {
		return false
	}
	if span == "*" || span == "?" {
		return true
	}
	value := func(s string) int {
		if i := slices.Index(names, s); i >= 0 {
			return limits[0] + i
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			return -1
		}
		return n
	}
	first, last, ranged := strings.Cut(span, "-")
	from, to := value(first), value(first)
	if ranged {
		to = value(last)
	}
	return from >= limits[0] && to <= limits[1] && from <= to
}

// network are Services, Ingresses and NetworkPolicies.
func (in *inspectors) network() {
	enum(in, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	enum(in, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	enum(in, networkingv1.PathTypeExact, networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific)
	enum(in, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	check[corev1.ServiceSpec](in, serviceSpec)
	check[networkingv1.IngressRule](in, func(o object, path *field.Path) field.ErrorList {
		host := text(o, "host")
		if faults := validation.IsDNS1123Subdomain(strings.TrimPrefix(host, "*.")); host != "" && len(faults) > 0 {
			return field.ErrorList{field.Invalid(path.Child("host"), host, strings.Join(faults, ", "))}
		}
		return nil
	})
	check[networkingv1.HTTPIngressPath](in, func(o object, path *field.Path) field.ErrorList {
		p, t := text(o, "path"), text(o, "pathType")
		if (t == "Exact" || t == "Prefix") && !strings.HasPrefix(p, "/") {
			return field.ErrorList{field.Invalid(path.Child("path"), p, "must be an absolute path")}
		}
		return nil
	})
	check[networkingv1.IngressBackend](in, backend)
	check[networkingv1.IPBlock](in, func(o object, path *field.Path) field.ErrorList {
		if _, err := netip.ParsePrefix(text(o, "cidr")); err != nil {
			return field.ErrorList{field.Invalid(path.Child("cidr"), text(o, "cidr"), "must be a valid CIDR value")}
		}
		return nil
	})
}

// policies are the other kinds.
func (in *inspectors) policies() {
	check[metav1.LabelSelectorRequirement](in, func(o object, path *field.Path) field.ErrorList {
		switch op := text(o, "operator"); op {
		case "In", "NotIn", "Exists", "DoesNotExist":
			return nil
		default:
			return field.ErrorList{field.Invalid(path.Child("operator"), op, "not a valid selector operator")}
		}
	})
	check[policyv1.PodDisruptionBudgetSpec](in, budget)
	check[autoscalingv2.HorizontalPodAutoscalerSpec](in, autoscaler)
	check[autoscalingv2.CrossVersionObjectReference](in, func(o object, path *field.Path) field.ErrorList {
		if text(o, "apiVersion") == "" {
			return field.ErrorList{field.Invalid(path.Child("apiVersion"), "", "must specify an API version")}
		}
		return nil
	})
	check[corev1.ResourceQuotaSpec](in, quota)
	check[rbacv1.Subject](in, func(o object, path *field.Path) field.ErrorList {
		errs := needed(o, path, "name")
		kinds := []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}
		if kind := text(o, "kind"); !slices.Contains(kinds, kind) {
			errs = append(errs, field.NotSupported(path.Child("kind"), kind, kinds))
		}
		return errs
	})
	check[rbacv1.RoleRef](in, func(o object, path *field.Path) field.ErrorList {
		if group := cmp.Or(text(o, "apiGroup"), rbac); group != rbac {
			return field.ErrorList{field.NotSupported(path.Child("apiGroup"), group, []string{rbac})}
		}
		return nil
	})
	check[rbacv1.Role](in, role)
	check[rbacv1.PolicyRule](in, rule)
}

// serviceSpec wants the fields that the type of a Service has, and no others.
func serviceSpec(o object, path *field.Path) field.ErrorList {
	errs := twice(o["ports"], path.Child("ports"), "name")
	t := text(o, "type")
	if t == "ExternalName" && text(o, "externalName") == "" {
		errs = append(errs, field.Required(path.Child("externalName"), ""))
	}
	ports, _ := o["ports"].([]any)
	for i, p := range ports {
		if n := number(asObject(p), "nodePort"); t == "ClusterIP" && n != 0 {
			errs = append(errs, field.Forbidden(path.Child("ports").Index(i).Child("nodePort"),
				"may not be used when `type` is 'ClusterIP'"))
		}
	}
	if p := text(o, "externalTrafficPolicy"); p != "" && t == "ClusterIP" && o["externalIPs"] == nil {
		errs = append(errs, field.Invalid(path.Child("externalTrafficPolicy"), p,
			"may only be set for externally-accessible services"))
	}
	return errs
}

// backend wants a resource, or a Service with a port.
func backend(o object, path *field.Path) field.ErrorList {
	s := asObject(o["service"])
	switch port := asObject(s["port"]); {
	case s == nil && o["resource"] == nil:
		return field.ErrorList{field.Invalid(path, "", "exactly one of service or resource must be set")}
	case s == nil:
	case text(s, "name") == "":
		return field.ErrorList{field.Required(path.Child("service", "name"), "")}
	case text(port, "name") == "" && number(port, "number") == 0:
		return field.ErrorList{field.Required(path, "port name or number is required")}
	}
	return nil
}

// budget takes numbers, and percentages up to 100.
func budget(o object, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range []string{"minAvailable", "maxUnavailable"} {
		percent, is := strings.CutSuffix(text(o, name), "%")
		n, err := strconv.Atoi(percent)
		if number(o, name) < 0 || is && (err != nil || n > 100) {
			errs = append(errs, field.Invalid(path.Child(name), o[name], "must be a number or a percentage up to 100%"))
		}
	}
	return errs
}

// autoscaler wants at least one replica, and no fewer at most than at least.
func autoscaler(o object, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	least, set := o["minReplicas"].(int64)
	if set && least < 1 {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), least, "must be greater than or equal to 1"))
		if least == 0 {
			errs = append(errs, field.Forbidden(path.Child("metrics"), "must specify at least one Object or External metric"))
		}
	}
	if most := number(o, "maxReplicas"); most < least && most > 0 {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), most,
			"must be greater than or equal to `minReplicas`"))
	}
	return errs
}

// rule wants resources of groups, or URLs.
func rule(o object, path *field.Path) field.ErrorList {
	if !empty(o["nonResourceURLs"]) {
		return nil
	}
	errs := field.ErrorList{}
	for _, name := range []string{"apiGroups", "resources"} {
		if empty(o[name]) && (name != "resources" || !empty(o["apiGroups"])) {
			errs = append(errs, field.Required(path.Child(name), "resource rules must supply at least one"))
		}
	}
	return errs
}

// role takes no URLs, which no namespace has.
func role(o object, _ *field.Path) field.ErrorList {
	rules, _ := o["rules"].([]any)
	for i := range rules {
		if urls := asObject(rules[i])["nonResourceURLs"]; !empty(urls) {
			return field.ErrorList{field.Invalid(field.NewPath("rules").Index(i).Child("nonResourceURLs"), urls,
				"namespaced rules cannot apply to non-resource URLs")}
		}
	}
	return nil
}

// quota checks the names of its limits: resources that the server counts, or those of a domain.
func quota(o object, path *field.Path) field.ErrorList {
	known := []string{
		"cpu", "memory", "ephemeral-storage", "pods", "services", "replicationcontrollers", "resourcequotas", "secrets",
		"configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
	}
	var errs field.ErrorList
	for name, v := range asObject(o["hard"]) {
		place := path.Child("hard").Key(name)
		prefix, _, dotted := strings.Cut(name, ".")
		qualified := strings.Contains(name, "/") || dotted && (prefix == "requests" || prefix == "limits")
		if !qualified && !slices.Contains(known, name) {
			errs = append(errs, field.Invalid(place, name, "must be a standard resource for quota"))
		}
		if s, _ := v.(string); strings.HasPrefix(s, "-") {
			errs = append(errs, field.Invalid(place, s, "must be greater than or equal to 0"))
		}
	}
	return errs
}
