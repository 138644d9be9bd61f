package load

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Shape returns the function that makes Pods of the named shape: [Pod] for
// "full", [Plain] for "plain", and [Unlike] for "unlike".
func Shape(name string) (func(n int) *corev1.Pod, error) {
	switch name {
	case "full":
		return Pod, nil
	case "plain":
		return Plain, nil
	case "unlike":
		return Unlike, nil
	default:
		return nil, fmt.Errorf("shape %q: must be full, plain or unlike", name)
	}
}

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path

// Plain returns Pod n with the fields that kubectl create deployment and a
// kubelet write. It has one container, and the volume with the token of its
// service account.
func Plain(n int) *corev1.Pod {
	deployment := n / Replicas
	// Replicas are created within seconds of one another.
	created := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, deployment*60%86400+n%Replicas/5, 0, time.UTC))
	app := fmt.Sprint("service-", deployment)
	owner := fmt.Sprintf("%s-%s", app, hex(deployment, 10))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: owner + "-" + suffix(n), GenerateName: owner + "-", Namespace: fmt.Sprintf("team-%d", deployment/2),
			UID: types.UID(uid(n)), ResourceVersion: fmt.Sprint(1_000_000 + n), CreationTimestamp: created, Generation: 1,
			Labels: map[string]string{"app": app, "pod-template-hash": hex(deployment, 10)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(uid(1_000_000 + deployment)),
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
			ManagedFields: managedFieldsOf(n, created, fmt.Sprintf(plainFields, uid(1_000_000+deployment), app)),
		},
		Spec: plainSpec(n, app),
	}
	p.Status = plainStatus(n, app, created)
	return p
}

func plainSpec(n int, app string) corev1.PodSpec {
	s := spec(n)
	return corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: app, Image: "registry.example.com/" + app + ":1.27",
			VolumeMounts:           []corev1.VolumeMount{{Name: token(n), MountPath: tokenPath, ReadOnly: true}},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			ImagePullPolicy: corev1.PullIfNotPresent,
		}},
		Volumes:       s.Volumes[2:],
		RestartPolicy: s.RestartPolicy, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		DNSPolicy: s.DNSPolicy, NodeName: s.NodeName, SchedulerName: s.SchedulerName,
		ServiceAccountName: "default", DeprecatedServiceAccount: "default",
		SecurityContext: &corev1.PodSecurityContext{}, Tolerations: s.Tolerations,
		Priority: s.Priority, EnableServiceLinks: s.EnableServiceLinks, PreemptionPolicy: s.PreemptionPolicy,
	}
}

func plainStatus(n int, app string, created metav1.Time) corev1.PodStatus {
	s := status(n, created)
	for i := range s.Conditions {
		s.Conditions[i].ObservedGeneration = 1
	}
	container := &s.ContainerStatuses[0]
	container.Name, container.Image = app, "registry.example.com/"+app+":1.27"
	container.ImageID = "registry.example.com/" + app + "@sha256:" + hex(n/Replicas, 64)
	container.VolumeMounts = []corev1.VolumeMountStatus{{
		Name: token(n), MountPath: tokenPath, ReadOnly: true,
		RecursiveReadOnly: new(corev1.RecursiveReadOnlyDisabled),
	}}
	container.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{SupplementalGroups: []int64{0}}}
	s.ObservedGeneration, s.QOSClass, s.ContainerStatuses = 1, corev1.PodQOSBestEffort, s.ContainerStatuses[:1:1]
	return s
}

const plainFields = `{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},` +
	`"f:ownerReferences":{".":{},"k:{\"uid\":\"%s\"}":{}}},` +
	`"f:spec":{"f:containers":{"k:{\"name\":\"%s\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},` +
	`"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},` +
	`"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},` +
	`"f:terminationGracePeriodSeconds":{}}}`
