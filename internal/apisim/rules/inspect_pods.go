package rules

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// values registers the values of enumerations, and checks of storage.
func (insp *inspectors) values() {
	enum(insp, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	enum(insp, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	enum(insp, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	enum(insp, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	enum(insp, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	enum(insp, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	enum(insp, corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod)
	enum(insp, corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete,
		corev1.PersistentVolumeReclaimRecycle)
	enum(insp, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	check[corev1.VolumeResourceRequirements](insp, func(o object, path *field.Path) field.ErrorList {
		if q, err := resource.ParseQuantity(Text(Object(o["requests"]), "storage")); err == nil && q.Sign() <= 0 {
			return field.ErrorList{field.Invalid(path.Key("storage"), q.String(), "must be greater than zero")}
		}
		return nil
	})
}

// pods registers checks of the parts of a Pod. They also apply to templates.
func (insp *inspectors) pods() {
	check[corev1.PodSpec](insp, func(o object, path *field.Path) field.ErrorList {
		errs := duplicateNames(o["volumes"], path.Child("volumes"), "name")
		if n, set := o["activeDeadlineSeconds"].(int64); set && (n < 1 || n > math.MaxInt32) {
			errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), n, "must be between 1 and 2147483647"))
		}
		return append(errs, initContainers(o, path)...)
	})
	check[corev1.ContainerPort](insp, func(o object, path *field.Path) field.ErrorList {
		switch n := Number(o, "containerPort"); {
		case n == 0:
			return field.ErrorList{field.Required(path.Child("containerPort"), "")}
		case n < 1 || n > 65535:
			return field.ErrorList{field.Invalid(path.Child("containerPort"), n, "must be between 1 and 65535, inclusive")}
		}
		return nil
	})
	check[corev1.EnvVar](insp, func(o object, path *field.Path) field.ErrorList { return requireFields(o, path, "name") })
	check[corev1.VolumeMount](insp, func(o object, path *field.Path) field.ErrorList {
		return requireFields(o, path, "name", "mountPath")
	})
	check[corev1.Volume](insp, func(o object, path *field.Path) field.ErrorList { return requireFields(o, path, "name") })
	check[corev1.PersistentVolumeClaimVolumeSource](insp, func(o object, path *field.Path) field.ErrorList {
		return requireFields(o, path, "claimName")
	})
	check[corev1.SecretVolumeSource](insp, func(o object, path *field.Path) field.ErrorList {
		return requireFields(o, path, "secretName")
	})
	check[corev1.HTTPGetAction](insp, func(o object, path *field.Path) field.ErrorList {
		if n, ok := o["port"].(int64); ok && (n < 1 || n > 65535) {
			return field.ErrorList{field.Invalid(path.Child("port"), n, "must be between 1 and 65535, inclusive")}
		}
		return nil
	})
	check[corev1.Probe](insp, handler)
	check[corev1.LifecycleHandler](insp, handler)
	check[corev1.ResourceRequirements](insp, requirements)
}

// initContainers requires that init containers have images, and names that
// differ from all other containers.
func initContainers(spec object, path *field.Path) field.ErrorList {
	used := map[string]bool{}
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		used[Text(Object(c), "name")] = true
	}
	var errs field.ErrorList
	list, _ := spec["initContainers"].([]any)
	for i, v := range list {
		place := path.Child("initContainers").Index(i)
		if name := Text(Object(v), "name"); used[name] {
			errs = append(errs, field.Duplicate(place.Child("name"), name))
		} else {
			used[name] = true
		}
		errs = append(errs, requireFields(Object(v), place, "name", "image")...)
	}
	return errs
}

// handler checks a probe or a hook. It must have exactly one action, and no
// negative numbers.
func handler(o object, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := 0
	for _, name := range []string{"exec", "httpGet", "tcpSocket", "grpc", "sleep"} {
		if o[name] == nil {
			continue
		}
		if found++; found > 1 {
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 handler type"))
		}
	}
	if found == 0 {
		errs = append(errs, field.Required(path, "must specify a handler type"))
	}
	return append(errs, atLeast(o, path, 0, "initialDelaySeconds", "timeoutSeconds", "periodSeconds",
		"successThreshold", "failureThreshold")...)
}

// requirements requires that the requests of a container are within its limits,
// and that none of them is negative.
func requirements(o object, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	limits, requests := Object(o["limits"]), Object(o["requests"])
	for _, part := range []string{"limits", "requests"} {
		for name := range Object(o[part]) {
			if q, err := resource.ParseQuantity(Text(Object(o[part]), name)); err == nil && q.Sign() < 0 {
				errs = append(errs, field.Invalid(path.Child(part).Key(name), q.String(),
					"must be greater than or equal to 0"))
			}
		}
	}
	for name := range requests {
		request, err := resource.ParseQuantity(Text(requests, name))
		limit, err2 := resource.ParseQuantity(Text(limits, name))
		if err == nil && err2 == nil && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests"), request.String(),
				"must be less than or equal to "+name+" limit of "+limit.String()))
		}
	}
	return errs
}
