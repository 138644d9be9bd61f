// Package load makes the objects that the cache benchmarks read and a server
// that sends them.
package load

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Replicas is the number of Pods of each Deployment.
const Replicas = 50

// Nodes is the number of nodes on which the Pods run.
const Nodes = 5000

// Pod returns Pod n with the fields that a kubelet writes: about 4.7 KB of
// protobuf, with a sidecar, three volumes, probes, and the usual fields of
// manifests.
func Pod(n int) *corev1.Pod {
	deployment, created := n/Replicas, metav1.NewTime(time.Date(2026, 1, 1, 0, 0, n%86400, 0, time.UTC))
	name := fmt.Sprintf("service-%d-%s-%s", deployment, hex(deployment, 10), suffix(n))
	owner := fmt.Sprintf("service-%d-%s", deployment, hex(deployment, 10))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: owner + "-", Namespace: fmt.Sprintf("team-%d", deployment/2),
			UID: types.UID(uid(n)), ResourceVersion: fmt.Sprint(1_000_000 + n), CreationTimestamp: created, Generation: 1,
			Labels: map[string]string{
				"app": fmt.Sprint("service-", deployment), "app.kubernetes.io/name": fmt.Sprint("service-", deployment),
				"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/version": "1.27.3",
				"pod-template-hash": hex(deployment, 10), "tier": []string{"web", "cache", "batch"}[deployment%3],
			},
			Annotations: map[string]string{
				"checksum/config": hex(deployment, 64), "prometheus.io/scrape": "true", "prometheus.io/port": "8080",
				"cni.projectcalico.org/podIP": ip(n) + "/32",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(uid(1_000_000 + deployment)),
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
			ManagedFields: managedFieldsOf(n, created, fmt.Sprintf(createdFields, uid(1_000_000+deployment))),
		},
	}
	p.Spec = spec(n)
	p.Status = status(n, created)
	return p
}

func container(n int, name string, port int32) corev1.Container {
	deployment := n / Replicas
	return corev1.Container{
		Name: name, Image: fmt.Sprintf("registry.example.com/team-%d/%s:v1.27.%d", deployment/2, name, deployment%40),
		Args: []string{"--config=/etc/service/config.yaml", "--log-level=info", fmt.Sprintf("--listen=:%d", port)},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: fieldRef("metadata.name")}},
			{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: fieldRef("metadata.namespace")}},
			{Name: "GOMAXPROCS", Value: "2"},
			{Name: "REGION", Value: "eu-central-1"},
			{Name: "DATABASE_HOST", Value: fmt.Sprintf("db-%d.team-%d.svc.cluster.local", deployment, deployment/2)},
		},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/service", ReadOnly: true},
			{Name: "data", MountPath: "/var/lib/service"},
			{Name: token(n), MountPath: tokenPath, ReadOnly: true},
		},
		LivenessProbe: probe("/healthz", port), ReadinessProbe: probe("/readyz", port),
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func fieldRef(path string) *corev1.ObjectFieldSelector {
	return &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}
}

// token returns the name of the volume with a Pod's token.
func token(n int) string { return "kube-api-access-" + suffix(n) }

func spec(n int) corev1.PodSpec {
	account := fmt.Sprint("service-", n/Replicas)
	return corev1.PodSpec{
		Containers: []corev1.Container{container(n, "main", 8080), container(n, "proxy", 15000)},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: account}, DefaultMode: new(int32(420)),
			}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: token(n), VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				DefaultMode: new(int32(420)),
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
						ExpirationSeconds: new(int64(3607)), Path: "token",
					}},
					{ConfigMap: &corev1.ConfigMapProjection{
						LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
						Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
					}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
						Path: "namespace", FieldRef: fieldRef("metadata.namespace"),
					}}}},
				},
			}}},
		},
		RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
		DNSPolicy:          corev1.DNSClusterFirst,
		ServiceAccountName: account, DeprecatedServiceAccount: account, NodeName: Node(n), SchedulerName: "default-scheduler",
		SecurityContext: &corev1.PodSecurityContext{FSGroup: new(int64(1000)), RunAsNonRoot: new(true)},
		Tolerations: []corev1.Toleration{
			toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable"),
		},
		Priority: new(int32(0)), EnableServiceLinks: new(true), PreemptionPolicy: new(corev1.PreemptLowerPriority),
	}
}

func toleration(key string) corev1.Toleration {
	return corev1.Toleration{
		Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(300)),
	}
}

func probe(path string, port int32) *corev1.Probe {
	get := &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP}
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: get},
		TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
}

func status(n int, created metav1.Time) corev1.PodStatus {
	started := metav1.NewTime(created.Add(3 * time.Second))
	var conditions []corev1.PodCondition
	for _, kind := range []corev1.PodConditionType{
		"PodReadyToStartContainers", corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		conditions = append(conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: started,
		})
	}
	var containers []corev1.ContainerStatus
	for k, name := range []string{"main", "proxy"} {
		deployment := n / Replicas
		containers = append(containers, corev1.ContainerStatus{
			Name: name, Ready: true, Started: new(true),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
			Image:       fmt.Sprintf("registry.example.com/team-%d/%s:v1.27.%d", deployment/2, name, deployment%40),
			ImageID:     fmt.Sprintf("registry.example.com/team-%d/%s@sha256:%s", deployment/2, name, hex(deployment, 64)),
			ContainerID: "containerd://" + hex(2*n+k, 64),
		})
	}
	node := n % Nodes
	host := fmt.Sprintf("10.%d.%d.%d", 200+node/65536, node/256%256, node%256)
	return corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: conditions, HostIP: host, HostIPs: []corev1.HostIP{{IP: host}},
		PodIP: ip(n), PodIPs: []corev1.PodIP{{IP: ip(n)}}, StartTime: &created, ContainerStatuses: containers,
		QOSClass: corev1.PodQOSBurstable,
	}
}

func managedFieldsOf(n int, created metav1.Time, controllers string) []metav1.ManagedFieldsEntry {
	started := metav1.NewTime(created.Add(3 * time.Second))
	return []metav1.ManagedFieldsEntry{
		{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &created,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(controllers),
		},
		{
			Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &started,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(statusFields, ip(n))), Subresource: "status",
		},
	}
}

const (
	createdFields = `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},"f:prometheus.io/port":{},` +
		`"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},` +
		`"f:tier":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"%s\"}":{}}},` +
		`"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:args":{},"f:env":{".":{},` +
		`"k:{\"name\":\"POD_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},"f:image":{},` +
		`"f:imagePullPolicy":{},"f:livenessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},` +
		`"f:port":{},"f:scheme":{}},"f:periodSeconds":{}},"f:name":{},"f:resources":{".":{},"f:limits":{".":{},` +
		`"f:memory":{}}}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},` +
		`"f:securityContext":{".":{},"f:fsGroup":{}}}}`
	statusFields = `{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},` +
		`"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},` +
		`"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},` +
		`"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},` +
		`"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:hostIPs":{},"f:phase":{},"f:podIP":{},` +
		`"f:podIPs":{".":{},"k:{\"ip\":\"%s\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`
)

// Node returns the name of the node that Pod n runs on.
func Node(n int) string { return fmt.Sprint("node-", n%Nodes) }

func ip(n int) string { return fmt.Sprintf("10.%d.%d.%d", n/65536%200, n/256%256, n%256) }

func uid(n int) string {
	h := hex(n, 32)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// suffix returns five hexadecimal digits that differ for each n below a
// million.
func suffix(n int) string { return fmt.Sprintf("%05x", n*7919%(1<<20)) }

// hex returns a text of this length that looks like a hash of n. Equal numbers
// get the same text.
func hex(n, length int) string {
	out := make([]byte, length)
	state := uint64(n+1) * 0x9e3779b97f4a7c15
	for i := range out {
		state ^= state >> 29
		state *= 0xbf58476d1ce4e5b9
		out[i] = "0123456789abcdef"[state>>60]
	}
	return string(out)
}
