package apisim

import (
	"slices"
	"strings"
	"sync"

	"github.com/homeostat/homeostat/internal/apisim/rules"
)

// builtins is the table of the server's built-in kinds. Each line has the
// group/version, the resource, the kind and these flags:
//
//	ns  the kind is namespaced
//	st  it has the subresource status
//	gen its generation counts changes of the spec
//	un  an update without a resourceVersion is accepted
//	cu  an update creates a missing object
//	do  DELETE answers with the object
//	sa  a new object keeps its status
//	sc  it has the subresource scale
//	or  by default, DELETE orphans the dependents
//	fg  its generation is always 1
const builtins = `
v1 configmaps ConfigMap ns un
v1 secrets Secret ns un
v1 pods Pod ns st gen un do
v1 nodes Node st un sa
v1 namespaces Namespace st un do
v1 services Service ns st un cu do
v1 serviceaccounts ServiceAccount ns un do
v1 events Event ns un cu
v1 endpoints Endpoints ns un cu
v1 persistentvolumeclaims PersistentVolumeClaim ns st un do
v1 persistentvolumes PersistentVolume st un do
v1 resourcequotas ResourceQuota ns st un do
v1 limitranges LimitRange ns un cu
v1 replicationcontrollers ReplicationController ns st gen un sc or
v1 podtemplates PodTemplate ns gen un
apps/v1 deployments Deployment ns st gen un sc
apps/v1 replicasets ReplicaSet ns st gen un sc
apps/v1 statefulsets StatefulSet ns st gen un sc
apps/v1 daemonsets DaemonSet ns st gen un
apps/v1 controllerrevisions ControllerRevision ns un
batch/v1 jobs Job ns st gen un or
batch/v1 cronjobs CronJob ns st gen un
coordination.k8s.io/v1 leases Lease ns cu
discovery.k8s.io/v1 endpointslices EndpointSlice ns gen un
events.k8s.io/v1 events Event ns un cu
policy/v1 poddisruptionbudgets PodDisruptionBudget ns st gen
networking.k8s.io/v1 ingresses Ingress ns st gen un
networking.k8s.io/v1 networkpolicies NetworkPolicy ns gen un
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler ns st un
rbac.authorization.k8s.io/v1 roles Role ns un cu
rbac.authorization.k8s.io/v1 rolebindings RoleBinding ns un cu
rbac.authorization.k8s.io/v1 clusterroles ClusterRole un cu
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding un cu
scheduling.k8s.io/v1 priorityclasses PriorityClass gen un fg
storage.k8s.io/v1 storageclasses StorageClass un
storage.k8s.io/v1 csidrivers CSIDriver gen
networking.k8s.io/v1 ingressclasses IngressClass gen un
node.k8s.io/v1 runtimeclasses RuntimeClass un cu
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration gen un
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration gen un
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest st un
resource.k8s.io/v1 resourceclaims ResourceClaim ns st un
resource.k8s.io/v1 resourceclaimtemplates ResourceClaimTemplate ns un
resource.k8s.io/v1 resourceslices ResourceSlice gen un
`

// Builtin returns the built-in kinds, which every server has.
func Builtin() []Resource { return slices.Clone(parsed()) }

var parsed = sync.OnceValue(func() []Resource {
	var resources []Resource
	for line := range strings.Lines(strings.TrimSpace(builtins)) {
		resources = append(resources, parseBuiltin(strings.Fields(line)))
	}
	return resources
})

func parseBuiltin(f []string) Resource {
	group, version, found := strings.Cut(f[0], "/")
	if !found {
		group, version = "", f[0]
	}
	r := Resource{Group: group, Version: version, Resource: f[1], Kind: f[2]}
	r.builtin = builtin{
		typed: true, noGeneration: true,
		statusOnPayload: firstStatus(f[1]), rules: rules.Lookup(group, f[1]),
	}
	for _, flag := range f[3:] {
		r.set(flag)
	}
	return r
}

func (r *Resource) set(flag string) {
	switch flag {
	case "ns":
		r.Namespaced = true
	case "st":
		r.Status = true
	case "gen":
		r.builtin.noGeneration = false
	case "un":
		r.builtin.unconditional = true
	case "cu":
		r.builtin.createOnUpdate = true
	case "do":
		r.builtin.deletedObject = true
	case "sa":
		r.builtin.statusAtCreate = true
	case "sc":
		r.builtin.scale = true
	case "or":
		r.builtin.orphans = true
	case "fg":
		r.builtin.fixedGeneration = true
	}
}

func firstStatus(resource string) map[string]any {
	switch resource {
	case "pods":
		return map[string]any{"phase": "Pending"}
	case "namespaces":
		return map[string]any{"phase": "Active"}
	case "persistentvolumes", "persistentvolumeclaims":
		return map[string]any{"phase": "Pending"}
	}
	return nil
}
