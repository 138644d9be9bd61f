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

// pods are Pods and their templates.
func (d *defaulters) pods() {
	setter(d, func(o *corev1.Pod) {
		unset(&o.Spec.EnableServiceLinks, true)
		for _, list := range [][]corev1.Container{o.Spec.InitContainers, o.Spec.Containers} {
			for i := range list {
				limited(&list[i])
				for j := range list[i].Ports {
					if port := &list[i].Ports[j]; o.Spec.HostNetwork {
						either(&port.HostPort, port.ContainerPort)
					}
				}
			}
		}
	})
	setter(d, func(o *corev1.PodSpec) {
		either(&o.DNSPolicy, corev1.DNSClusterFirst)
		either(&o.RestartPolicy, corev1.RestartPolicyAlways)
		either(&o.SchedulerName, corev1.DefaultSchedulerName)
		unset(&o.SecurityContext, corev1.PodSecurityContext{})
		unset(&o.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	})
	setter(d, container)
	setter(d, func(o *corev1.EphemeralContainerCommon) { container((*corev1.Container)(o)) })
	setter(d, func(o *corev1.ContainerPort) { either(&o.Protocol, corev1.ProtocolTCP) })
	setter(d, func(o *corev1.ObjectFieldSelector) { either(&o.APIVersion, "v1") })
	setter(d, func(o *corev1.Probe) {
		either(&o.TimeoutSeconds, 1)
		either(&o.PeriodSeconds, 10)
		either(&o.SuccessThreshold, 1)
		either(&o.FailureThreshold, 3)
	})
	setter(d, func(o *corev1.HTTPGetAction) {
		either(&o.Path, "/")
		either(&o.Scheme, corev1.URISchemeHTTP)
	})
	setter(d, func(o *corev1.GRPCAction) { unset(&o.Service, "") })
}

// limited asks for what a container is limited to, unless it asks for something itself.
func limited(c *corev1.Container) {
	for name, q := range c.Resources.Limits {
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		if _, there := c.Resources.Requests[name]; !there {
			c.Resources.Requests[name] = q.DeepCopy()
		}
	}
}

func container(c *corev1.Container) {
	either(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	either(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	either(&c.ImagePullPolicy, pullPolicy(c.Image))
}

func pullPolicy(image string) corev1.PullPolicy {
	name, digest := image[strings.LastIndex(image, "/")+1:], strings.Contains(image, "@")
	if _, tag, tagged := strings.Cut(name, ":"); tag == "latest" || !tagged && !digest {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// volumes are those of Pods, and the storage that they claim.
func (d *defaulters) volumes() {
	setter(d, func(o *corev1.Volume) {
		if reflect.ValueOf(o.VolumeSource).IsZero() {
			o.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
		if o.Image != nil {
			either(&o.Image.PullPolicy, pullPolicy(o.Image.Reference))
		}
	})
	const readable = int32(0o644)
	setter(d, func(o *corev1.SecretVolumeSource) { unset(&o.DefaultMode, readable) })
	setter(d, func(o *corev1.ConfigMapVolumeSource) { unset(&o.DefaultMode, readable) })
	setter(d, func(o *corev1.DownwardAPIVolumeSource) { unset(&o.DefaultMode, readable) })
	setter(d, func(o *corev1.ProjectedVolumeSource) { unset(&o.DefaultMode, readable) })
	setter(d, func(o *corev1.ServiceAccountTokenProjection) { unset(&o.ExpirationSeconds, 3600) })
	setter(d, func(o *corev1.HostPathVolumeSource) { unset(&o.Type, corev1.HostPathUnset) })
	setter(d, func(o *corev1.PersistentVolumeClaim) { either(&o.Status.Phase, corev1.ClaimPending) })
	setter(d, func(o *corev1.PersistentVolumeClaimSpec) { unset(&o.VolumeMode, corev1.PersistentVolumeFilesystem) })
	setter(d, func(o *corev1.PersistentVolume) {
		either(&o.Status.Phase, corev1.VolumePending)
		either(&o.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		unset(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	})
}

// admitPod adds what the server's admission gives a new Pod: a priority, and a while on a node that is lost. It refuses
// a Pod whose class is not there, and one that says otherwise than its class.
func admitPod(x *exchange, obj object) error {
	spec := asObject(obj["spec"])
	if spec == nil {
		return nil
	}
	class := text(spec, "priorityClassName")
	priority, policy, known := priorityOf(x.s.tables, class)
	differs := spec["priority"] != nil && number(spec, "priority") != priority ||
		!empty(spec["preemptionPolicy"]) && text(spec, "preemptionPolicy") != policy
	switch {
	case known && !differs:
		spec["priority"], spec["preemptionPolicy"] = priority, policy
	case !x.s.opts.Incomplete:
		return apierrors.NewForbidden(x.t.res.groupResource(), text(metaOf(obj), "name"), fmt.Errorf(
			"no PriorityClass with name %q was found, or the Pod has a different priority or preemption policy", class))
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

// priorityOf returns the priority and the preemption policy of a class, if there is one.
func priorityOf(
	tables map[schema.GroupVersionResource]*table, class string,
) (priority int64, policy string, known bool) {
	policy = string(corev1.PreemptLowerPriority)
	builtin := map[string]int64{"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
	if priority, known = builtin[class]; known {
		return priority, policy, true
	}
	classes := tables[schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")]
	if have := classes.objects[types.NamespacedName{Name: class}]; have != nil {
		return number(have.obj, "value"), cmp.Or(text(have.obj, "preemptionPolicy"), policy), true
	}
	return 0, "", false
}
