package rules

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

// workloads registers checks of the kinds that make Pods.
func (insp *inspectors) workloads() {
	check[appsv1.DeploymentSpec](insp, func(o object, path *field.Path) field.ErrorList {
		errs := forbidDeadline(o, path)
		deadline, ok := o["progressDeadlineSeconds"].(int64)
		if ok && deadline <= Number(o, "minReadySeconds") {
			errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), deadline,
				"must be greater than minReadySeconds"))
		}
		return errs
	})
	check[appsv1.DeploymentStrategy](insp, func(o object, path *field.Path) field.ErrorList {
		rolling := path.Child("rollingUpdate")
		switch t := Text(o, "type"); {
		case t == "Recreate" && o["rollingUpdate"] != nil:
			return field.ErrorList{field.Forbidden(rolling, "may not be specified when strategy `type` is 'Recreate'")}
		case t != "" && t != "Recreate" && t != "RollingUpdate":
			return field.ErrorList{field.NotSupported(path, t, []string{"Recreate", "RollingUpdate"})}
		case t == "RollingUpdate" && zeroRollingUpdate(o, "maxSurge") && zeroRollingUpdate(o, "maxUnavailable"):
			return field.ErrorList{field.Invalid(rolling.Child("maxUnavailable"), 0,
				"may not be 0 when `maxSurge` is 0")}
		}
		return nil
	})
	check[appsv1.ReplicaSetSpec](insp, forbidDeadline)
	check[appsv1.DaemonSetSpec](insp, forbidDeadline)
	check[appsv1.StatefulSetSpec](insp, func(o object, path *field.Path) field.ErrorList {
		errs := forbidDeadline(o, path)
		if p := Text(o, "podManagementPolicy"); !slices.Contains([]string{"", "OrderedReady", "Parallel"}, p) {
			errs = append(errs, field.Invalid(path.Child("podManagementPolicy"), p,
				"must be 'OrderedReady' or 'Parallel'"))
		}
		u := Text(Object(o["updateStrategy"]), "type")
		if !slices.Contains([]string{"", "RollingUpdate", "OnDelete"}, u) {
			errs = append(errs, field.Invalid(path.Child("updateStrategy"), u, "must be 'RollingUpdate' or 'OnDelete'"))
		}
		return errs
	})
	check[appsv1.DaemonSetUpdateStrategy](insp, func(o object, path *field.Path) field.ErrorList {
		if Text(o, "type") == "RollingUpdate" && zeroRollingUpdate(o, "maxSurge") && zeroRollingUpdate(o, "maxUnavailable") {
			return field.ErrorList{field.Required(path.Child("rollingUpdate", "maxUnavailable"),
				"cannot be 0 when maxSurge is 0")}
		}
		return nil
	})
	check[batchv1.JobSpec](insp, func(o object, path *field.Path) field.ErrorList {
		return atLeast(o, path, 0, "activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit", "parallelism",
			"completions")
	})
	enum(insp, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	check[batchv1.CronJobSpec](insp, cronJob)
}

// forbidDeadline refuses a deadline for the Pods of a workload that keeps them
// running.
func forbidDeadline(o object, path *field.Path) field.ErrorList {
	if Find(o, "template.spec.activeDeadlineSeconds") == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("template", "spec", "activeDeadlineSeconds"), "must not be set")}
}

// zeroRollingUpdate reports whether a number or percentage of a rolling update
// is zero.
func zeroRollingUpdate(o object, name string) bool {
	v := Object(o["rollingUpdate"])[name]
	return v == int64(0) || v == "0" || v == "0%"
}

func cronJob(o object, path *field.Path) field.ErrorList {
	errs := atLeast(o, path, 0, "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
	if s := Text(o, "schedule"); s != "" {
		if fault := scheduleError(s); fault != "" {
			errs = append(errs, field.Invalid(path.Child("schedule"), s, fault))
		}
	}
	if zone, set := o["timeZone"].(string); set {
		_, err := time.LoadLocation(zone)
		_, hasZones := time.LoadLocation("America/New_York") // the machine may have no time zones
		if zone == "" || strings.EqualFold(zone, "local") || err != nil && hasZones == nil {
			errs = append(errs, field.Invalid(path.Child("timeZone"), zone, fmt.Sprint(err)))
		}
	}
	template := path.Child("jobTemplate", "spec", "template", "spec")
	return append(errs, jobTemplate(Object(Find(o, "jobTemplate.spec.template.spec")), template)...)
}

// scheduleError returns what is wrong with a cron schedule, or "" if the
// schedule is valid.
func scheduleError(s string) string {
	if strings.HasPrefix(s, "@") {
		words := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
		if interval, ok := strings.CutPrefix(s, "@every "); ok {
			if _, err := time.ParseDuration(interval); err == nil {
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

// cronRange reports whether a part of a schedule has a form such as *, */5, 3,
// 1-5 or 1-5/2, and is within limits.
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
	low, high, ranged := strings.Cut(span, "-")
	minimum, maximum := value(low), value(low)
	if ranged {
		maximum = value(high)
	}
	return minimum >= limits[0] && maximum <= limits[1] && minimum <= maximum
}

// network registers checks of Services, Ingresses and NetworkPolicies.
func (insp *inspectors) network() {
	enum(insp, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	enum(insp, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	enum(insp, networkingv1.PathTypeExact, networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific)
	enum(insp, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	check[corev1.ServiceSpec](insp, serviceSpec)
	check[networkingv1.IngressRule](insp, func(o object, path *field.Path) field.ErrorList {
		host := Text(o, "host")
		if faults := validation.IsDNS1123Subdomain(strings.TrimPrefix(host, "*.")); host != "" && len(faults) > 0 {
			return field.ErrorList{field.Invalid(path.Child("host"), host, strings.Join(faults, ", "))}
		}
		return nil
	})
	check[networkingv1.HTTPIngressPath](insp, func(o object, path *field.Path) field.ErrorList {
		p, t := Text(o, "path"), Text(o, "pathType")
		if (t == "Exact" || t == "Prefix") && !strings.HasPrefix(p, "/") {
			return field.ErrorList{field.Invalid(path.Child("path"), p, "must be an absolute path")}
		}
		return nil
	})
	check[networkingv1.IngressBackend](insp, backend)
	check[networkingv1.IPBlock](insp, func(o object, path *field.Path) field.ErrorList {
		if _, err := netip.ParsePrefix(Text(o, "cidr")); err != nil {
			return field.ErrorList{field.Invalid(path.Child("cidr"), Text(o, "cidr"), "must be a valid CIDR value")}
		}
		return nil
	})
}

// policies registers checks of the other kinds.
func (insp *inspectors) policies() {
	check[metav1.LabelSelectorRequirement](insp, func(o object, path *field.Path) field.ErrorList {
		switch op := Text(o, "operator"); op {
		case "In", "NotIn", "Exists", "DoesNotExist":
			return nil
		default:
			return field.ErrorList{field.Invalid(path.Child("operator"), op, "not a valid selector operator")}
		}
	})
	check[policyv1.PodDisruptionBudgetSpec](insp, budget)
	check[autoscalingv2.HorizontalPodAutoscalerSpec](insp, autoscaler)
	check[autoscalingv2.CrossVersionObjectReference](insp, func(o object, path *field.Path) field.ErrorList {
		if Text(o, "apiVersion") == "" {
			return field.ErrorList{field.Invalid(path.Child("apiVersion"), "", "must specify an API version")}
		}
		return nil
	})
	check[corev1.ResourceQuotaSpec](insp, quota)
	check[rbacv1.Subject](insp, func(o object, path *field.Path) field.ErrorList {
		errs := requireFields(o, path, "name")
		kinds := []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}
		if kind := Text(o, "kind"); !slices.Contains(kinds, kind) {
			errs = append(errs, field.NotSupported(path.Child("kind"), kind, kinds))
		}
		return errs
	})
	check[rbacv1.RoleRef](insp, func(o object, path *field.Path) field.ErrorList {
		if group := cmp.Or(Text(o, "apiGroup"), rbac); group != rbac {
			return field.ErrorList{field.NotSupported(path.Child("apiGroup"), group, []string{rbac})}
		}
		return nil
	})
	check[rbacv1.Role](insp, role)
	check[rbacv1.PolicyRule](insp, rule)
}

// serviceSpec requires the fields that a Service of its type needs, and refuses
// the fields that it cannot have.
func serviceSpec(o object, path *field.Path) field.ErrorList {
	errs := duplicateNames(o["ports"], path.Child("ports"), "name")
	t := Text(o, "type")
	if t == "ExternalName" && Text(o, "externalName") == "" {
		errs = append(errs, field.Required(path.Child("externalName"), ""))
	}
	ports, _ := o["ports"].([]any)
	for i, p := range ports {
		if n := Number(Object(p), "nodePort"); t == "ClusterIP" && n != 0 {
			errs = append(errs, field.Forbidden(path.Child("ports").Index(i).Child("nodePort"),
				"may not be used when `type` is 'ClusterIP'"))
		}
	}
	if p := Text(o, "externalTrafficPolicy"); p != "" && t == "ClusterIP" && o["externalIPs"] == nil {
		errs = append(errs, field.Invalid(path.Child("externalTrafficPolicy"), p,
			"may only be set for externally-accessible services"))
	}
	return errs
}

// backend requires a resource, or a Service with a port.
func backend(o object, path *field.Path) field.ErrorList {
	s := Object(o["service"])
	switch port := Object(s["port"]); {
	case s == nil && o["resource"] == nil:
		return field.ErrorList{field.Invalid(path, "", "exactly one of service or resource must be set")}
	case s == nil:
	case Text(s, "name") == "":
		return field.ErrorList{field.Required(path.Child("service", "name"), "")}
	case Text(port, "name") == "" && Number(port, "number") == 0:
		return field.ErrorList{field.Required(path, "port name or number is required")}
	}
	return nil
}

// budget requires that the limits of a disruption budget are numbers, or
// percentages up to 100.
func budget(o object, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range []string{"minAvailable", "maxUnavailable"} {
		percent, ok := strings.CutSuffix(Text(o, name), "%")
		n, err := strconv.Atoi(percent)
		if Number(o, name) < 0 || ok && (err != nil || n > 100) {
			errs = append(errs, field.Invalid(path.Child(name), o[name], "must be a number or a percentage up to 100%"))
		}
	}
	return errs
}

// autoscaler requires at least one replica, and a maximum that is not below the
// minimum.
func autoscaler(o object, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	minimum, set := o["minReplicas"].(int64)
	if set && minimum < 1 {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), minimum, "must be greater than or equal to 1"))
		if minimum == 0 {
			errs = append(errs, field.Forbidden(path.Child("metrics"), "must specify at least one Object or External metric"))
		}
	}
	if maximum := Number(o, "maxReplicas"); maximum < minimum && maximum > 0 {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), maximum,
			"must be greater than or equal to `minReplicas`"))
	}
	return errs
}

// rule requires that a rule has either resources with their groups, or URLs.
func rule(o object, path *field.Path) field.ErrorList {
	if !Empty(o["nonResourceURLs"]) {
		return nil
	}
	errs := field.ErrorList{}
	for _, name := range []string{"apiGroups", "resources"} {
		if Empty(o[name]) && (name != "resources" || !Empty(o["apiGroups"])) {
			errs = append(errs, field.Required(path.Child(name), "resource rules must supply at least one"))
		}
	}
	return errs
}

// role refuses URLs in a Role, because URLs do not belong to a namespace.
func role(o object, _ *field.Path) field.ErrorList {
	rules, _ := o["rules"].([]any)
	for i := range rules {
		if urls := Object(rules[i])["nonResourceURLs"]; !Empty(urls) {
			return field.ErrorList{field.Invalid(field.NewPath("rules").Index(i).Child("nonResourceURLs"), urls,
				"namespaced rules cannot apply to non-resource URLs")}
		}
	}
	return nil
}

// quota checks the limits of a quota. The name of a limit must be a resource
// that the server counts, begin with "requests." or "limits.", or contain a
// domain. A limit must not be negative.
func quota(o object, path *field.Path) field.ErrorList {
	names := []string{
		"cpu", "memory", "ephemeral-storage", "pods", "services", "replicationcontrollers", "resourcequotas", "secrets",
		"configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
	}
	var errs field.ErrorList
	for name, v := range Object(o["hard"]) {
		place := path.Child("hard").Key(name)
		prefix, _, dotted := strings.Cut(name, ".")
		qualified := strings.Contains(name, "/") || dotted && (prefix == "requests" || prefix == "limits")
		if !qualified && !slices.Contains(names, name) {
			errs = append(errs, field.Invalid(place, name, "must be a standard resource for quota"))
		}
		if s, _ := v.(string); strings.HasPrefix(s, "-") {
			errs = append(errs, field.Invalid(place, s, "must be greater than or equal to 0"))
		}
	}
	return errs
}
