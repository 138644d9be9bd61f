package rules

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
		setDefault(&o.ServiceAccountName, o.DeprecatedServiceAccount)
		o.DeprecatedServiceAccount = o.ServiceAccountName
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
