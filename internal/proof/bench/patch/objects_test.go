package patch_test

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func texts(prefix string, n, size int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("example.com/%s-%d", prefix, i)] = strings.Repeat("v", size)
	}
	return out
}

func meta(name string) metav1.ObjectMeta {
	fields := `{"f:metadata":{"f:annotations":{` + strings.Repeat(`"f:example.com/annotation":{},`, 20) + `"f:z":{}}}}`
	var managed []metav1.ManagedFieldsEntry
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	for _, m := range []string{"kube-controller-manager", "kubelet", "kubectl"} {
		managed = append(managed, metav1.ManagedFieldsEntry{
			Manager: m, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		})
	}
	yes := true
	return metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID("6f8b1c9e-0000-4000-8000-000000000001"),
		ResourceVersion: "123456", CreationTimestamp: now, Labels: texts("label", 6, 12), Annotations: texts("note", 8, 40),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-6d4b", UID: "owner", Controller: &yes, BlockOwnerDeletion: &yes,
		}},
		ManagedFields: managed,
	}
}

func pod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("web-6d4b-xyz")}
	grace, mode := int64(30), int32(0o644)
	p.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace, NodeName: "node-17", ServiceAccountName: "web",
		RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: "default-scheduler",
		SecurityContext: &corev1.PodSecurityContext{},
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &grace},
			{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &grace},
		},
	}
	for _, name := range []string{"config", "data", "token"} {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, DefaultMode: &mode},
		}})
	}
	for _, name := range []string{"app", "proxy"} {
		p.Spec.Containers = append(p.Spec.Containers, container(name))
		now := metav1.NewTime(time.Unix(1_800_000_100, 0))
		started := true
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Ready: true, Started: &started, Image: "registry.example.com/" + name + ":v1.2.3",
			ImageID: "registry.example.com/" + name + "@sha256:" + strings.Repeat("0", 64), ContainerID: "containerd://" + strings.Repeat("a", 64),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	p.Status.Phase, p.Status.HostIP, p.Status.PodIP = corev1.PodRunning, "10.0.0.17", "10.1.17.4"
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.1.17.4"}}
	p.Status.QOSClass = corev1.PodQOSBurstable
	for _, t := range []string{"Initialized", "Ready", "ContainersReady", "PodScheduled", "PodReadyToStartContainers"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(t), Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1_800_000_000, 0)),
		})
	}
	return p
}

func container(name string) corev1.Container {
	c := corev1.Container{
		Name: name, Image: "registry.example.com/" + name + ":v1.2.3", Args: []string{"--v=2", "--address=:8080", "--config=/etc/config"},
		Ports:                    []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		TerminationMessagePath:   "/dev/termination-log",
		TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		LivenessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/livez", Port: intstr.FromString("http"), Scheme: "HTTP"}},
			PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1,
		},
	}
	for i := range 8 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: strings.Repeat("x", 24)})
	}
	for _, v := range []string{"config", "data", "token"} {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v, MountPath: "/var/" + v, ReadOnly: true})
	}
	return c
}

func node() *corev1.Node {
	n := &corev1.Node{ObjectMeta: meta("node-17")}
	n.Namespace = ""
	n.Spec = corev1.NodeSpec{PodCIDR: "10.1.17.0/24", PodCIDRs: []string{"10.1.17.0/24"}, ProviderID: "cloud:///zone/i-0123456789"}
	n.Status.Capacity, n.Status.Allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	for name, q := range map[string]string{"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110", "hugepages-2Mi": "0"} {
		n.Status.Capacity[corev1.ResourceName(name)] = resource.MustParse(q)
		n.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	for _, t := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Ready"} {
		at := metav1.NewTime(time.Unix(1_800_000_000, 0))
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(t), Status: corev1.ConditionFalse, Reason: "KubeletHas" + t, Message: "kubelet has no " + t,
			LastHeartbeatTime: at, LastTransitionTime: at,
		})
	}
	for i := range 20 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example.com/image-%d@sha256:%064d", i, i)}, SizeBytes: int64(i) << 20,
		})
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.17"}, {Type: corev1.NodeHostName, Address: "node-17"}}
	return n
}
