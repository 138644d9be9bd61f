package apisim

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// pods registers defaults of Pods and their templates.
func (d *defaulters) pods() {
	setter(d, func(o *corev1.Pod) {
		setDefaultPointer(&o.Spec.EnableServiceLinks, true)
		for _, list := range [][]corev1.Container{o.Spec.InitContainers, o.Spec.Containers} {
			for i := range list {
				defaultRequests(&list[i])
				for j := range list[i].Ports {
					if port := &list[i].Ports[j]; o.Spec.HostNetwork {
						setDefault(&port.HostPort, port.ContainerPort)
					}
				}
			}
		}
	})
	setter(d, func(o *corev1.PodSpec) {
		setDefault(&o.DNSPolicy, corev1.DNSClusterFirst)
		setDefault(&o.RestartPolicy, corev1.RestartPolicyAlways)
		setDefault(&o.SchedulerName, corev1.DefaultSchedulerName)
		setDefaultPointer(&o.SecurityContext, corev1.PodSecurityContext{})
		setDefaultPointer(&o.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	})
	setter(d, container)
	setter(d, func(o *corev1.EphemeralContainerCommon) { container((*corev1.Container)(o)) })
	setter(d, func(o *corev1.ContainerPort) { setDefault(&o.Protocol, corev1.ProtocolTCP) })
	setter(d, func(o *corev1.ObjectFieldSelector) { setDefault(&o.APIVersion, "v1") })
	setter(d, func(o *corev1.Probe) {
		setDefault(&o.TimeoutSeconds, 1)
		setDefault(&o.PeriodSeconds, 10)
		setDefault(&o.SuccessThreshold, 1)
		setDefault(&o.FailureThreshold, 3)
	})
	setter(d, func(o *corev1.HTTPGetAction) {
		setDefault(&o.Path, "/")
		setDefault(&o.Scheme, corev1.URISchemeHTTP)
	})
	setter(d, func(o *corev1.GRPCAction) { setDefaultPointer(&o.Service, "") })
}

// defaultRequests sets a container's missing requests to its limits.
func defaultRequests(c *corev1.Container) {
	for name, q := range c.Resources.Limits {
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		if _, exists := c.Resources.Requests[name]; !exists {
			c.Resources.Requests[name] = q.DeepCopy()
		}
	}
}

func container(c *corev1.Container) {
	setDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	setDefault(&c.ImagePullPolicy, pullPolicy(c.Image))
}

func pullPolicy(image string) corev1.PullPolicy {
	name, digest := image[strings.LastIndex(image, "/")+1:], strings.Contains(image, "@")
	if _, tag, tagged := strings.Cut(name, ":"); tag == "latest" || !tagged && !digest {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// volumes registers defaults of the volumes of Pods, and of the storage that
// they claim.
func (d *defaulters) volumes() {
	setter(d, func(o *corev1.Volume) {
		if reflect.ValueOf(o.VolumeSource).IsZero() {
			o.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
		if o.Image != nil {
			setDefault(&o.Image.PullPolicy, pullPolicy(o.Image.Reference))
		}
	})
	const readable = int32(0o644)
	setter(d, func(o *corev1.SecretVolumeSource) { setDefaultPointer(&o.DefaultMode, readable) })
	setter(d, func(o *corev1.ConfigMapVolumeSource) { setDefaultPointer(&o.DefaultMode, readable) })
	setter(d, func(o *corev1.DownwardAPIVolumeSource) { setDefaultPointer(&o.DefaultMode, readable) })
	setter(d, func(o *corev1.ProjectedVolumeSource) { setDefaultPointer(&o.DefaultMode, readable) })
	setter(d, func(o *corev1.ServiceAccountTokenProjection) { setDefaultPointer(&o.ExpirationSeconds, 3600) })
	setter(d, func(o *corev1.HostPathVolumeSource) { setDefaultPointer(&o.Type, corev1.HostPathUnset) })
	setter(d, func(o *corev1.PersistentVolumeClaim) { setDefault(&o.Status.Phase, corev1.ClaimPending) })
	setter(d, func(o *corev1.PersistentVolumeClaimSpec) {
		setDefaultPointer(&o.VolumeMode, corev1.PersistentVolumeFilesystem)
	})
	setter(d, func(o *corev1.PersistentVolume) {
		setDefault(&o.Status.Phase, corev1.VolumePending)
		setDefault(&o.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		setDefaultPointer(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	})
}

// admitPod adds the server's admission changes to a new Pod: a priority, and
// tolerations for a lost node. It refuses a Pod whose class does not exist, or
// whose priority or policy contradicts its class.
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
		if !slices.ContainsFunc(list, func(v any) bool { return tolerates(asObject(v), taint) }) {
			list = append(list, object{
				"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300),
			})
		}
	}
	spec["tolerations"] = list
	return nil
}

func tolerates(toleration object, taint string) bool {
	key, effect := text(toleration, "key"), text(toleration, "effect")
	return (key == taint || key == "") && (effect == "NoExecute" || effect == "")
}

// prioritize gives a new Pod the priority and the preemption policy of its
// class, or of the default class. It returns the real server's errors.
func prioritize(spec object, tables map[schema.GroupVersionResource]*table) error {
	classes := tables[schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")]
	class := cmp.Or(text(spec, "priorityClassName"), defaultClass(classes))
	builtin := map[string]int64{"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
	priority, known := builtin[class]
	policy := string(corev1.PreemptLowerPriority)
	if have := classes.objects[types.NamespacedName{Name: class}]; have != nil && !known {
		priority, policy, known = number(have.obj, "value"), cmp.Or(text(have.obj, "preemptionPolicy"), policy), true
	}
	const computed = "must not be provided in pod spec; priority admission controller computed %v from the given " +
		"PriorityClass name"
	switch given := text(spec, "preemptionPolicy"); {
	case !known:
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

// admitClass refuses a PriorityClass that would become a second default.
func admitClass(x *exchange, obj object) error {
	name, existing := text(metaOf(obj), "name"), defaultClass(x.t)
	if obj["globalDefault"] != true || existing == "" || existing == name || x.s.opts.Incomplete {
		return nil
	}
	return apierrors.NewForbidden(x.t.res.groupResource(), name,
		fmt.Errorf("PriorityClass %s is already marked as default. Only one default can exist", existing))
}

// defaultClass returns the class of Pods that do not name one. If there are
// several defaults, it is the one with the lowest value.
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
