package main

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/proof/bench/crowd"
)

const (
	// clusterSecrets is a text in the source of Cluster API, in the options
	// of its second cache. That cache has the metadata of all Secrets.
	clusterSecrets = "\t\tHTTPClient:        mgr.GetHTTPClient(),\n\t\tSyncPeriod:        syncPeriod,\n"
	clusterLine    = "NewInformer: clientgo.NewSharedIndexInformer,"
)

// clusters returns the variants of Cluster API. There is no variant with a
// cache on demand. The program reads Secrets and ConfigMaps from the server,
// and caches only their metadata. It needs the events of this cache even for
// objects that it has never read.
func clusters() []variant {
	const file = "core/main.go"
	variants := managers(file, "mgr, err := ctrl.NewManager(restConfig, ctrlOptions)", "ctrlOptions")[:2]
	v := &variants[1]
	v.Line += "`, and in the options of its cache of metadata `" + clusterLine
	v.Edits = append(v.Edits, edit{file, clusterSecrets, clusterSecrets + "\t\t" + clusterLine + "\n"})
	return variants
}

// clusterObjects returns a Cluster without machines, because nothing outside
// the server should be needed.
func clusterObjects() string {
	return platform("Platform") + platform("PlatformTemplate") + `---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: PlatformTemplate
metadata: {namespace: tenant-000, name: small}
spec: {template: {spec: {size: small}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {namespace: tenant-000, name: c}
spec: {paused: false}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {namespace: tenant-000, name: web}
spec:
  clusterName: c
  replicas: 0
  selector: {matchLabels: {app: web}}
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}
  template:
    metadata: {labels: {app: web, cluster.x-k8s.io/cluster-name: c}}
    spec:
      clusterName: c
      version: v1.36.3
      bootstrap: {dataSecretName: join}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: PlatformTemplate, name: small}
`
}

// platform returns the definition of a kind of an infrastructure provider.
func platform(kind string) string {
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[2]ss.infrastructure.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/v1beta2: v1}
spec:
  group: infrastructure.cluster.x-k8s.io
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]ss, singular: %[2]s}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, strings.ToLower(kind))
}

// replacesMachineSet waits until the Cluster has a finalizer and conditions and
// the MachineDeployment has a MachineSet. It then deletes the MachineSet, and
// waits until there is a new one.
func (w *world) replacesMachineSet(ctx context.Context) error {
	group := schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	namespace := crowd.Namespace(0)
	cluster := w.dynamic.Resource(group.WithResource("clusters")).Namespace(namespace)
	if err := eventually(ctx, "the Cluster has a finalizer and conditions", func(ctx context.Context) (bool, error) {
		c, err := cluster.Get(ctx, "c", metav1.GetOptions{})
		return err == nil && len(c.GetFinalizers()) > 0 && len(conditions(c)) > 0, nil
	}); err != nil {
		return err
	}
	sets := w.dynamic.Resource(group.WithResource("machinesets")).Namespace(namespace)
	live := func(ctx context.Context) types.UID {
		all, err := sets.List(ctx, metav1.ListOptions{})
		if err != nil {
			return ""
		}
		for _, s := range all.Items {
			owner := metav1.GetControllerOf(&s)
			if s.GetDeletionTimestamp() == nil && owner != nil && owner.Name == "web" {
				return s.GetUID()
			}
		}
		return ""
	}
	var old types.UID
	if err := eventually(ctx, "the MachineDeployment has a MachineSet", func(ctx context.Context) (bool, error) {
		old = live(ctx)
		return old != "", nil
	}); err != nil {
		return err
	}
	if err := sets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "a new MachineSet replaces the deleted one", func(ctx context.Context) (bool, error) {
		made := live(ctx)
		return made != "" && made != old, nil
	})
}
