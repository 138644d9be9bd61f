// Package machines contains the cases for versions of Cluster API. Their
// objects are made from YAML, because each version has its own Go types.
package machines

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const (
	definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: platformtemplates.infrastructure.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/v1beta2: v1}`
	platform = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: platforms.infrastructure.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/v1beta2: v1}`
	template = `
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: PlatformTemplate
metadata: {namespace: d, name: small}
spec: {template: {spec: {size: small}}}`
	cluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {namespace: d, name: c}
spec: {paused: false}`
	deployment = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {namespace: d, name: web}
spec:
  clusterName: c
  replicas: 1
  selector: {matchLabels: {app: web}}
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}
  template:
    metadata: {labels: {app: web, cluster.x-k8s.io/cluster-name: c}}
    spec:
      clusterName: c
      version: v1.36.3
      bootstrap: {dataSecretName: join}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: PlatformTemplate, name: small}`
	set = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata:
  namespace: d
  name: web
  labels: {topology.cluster.x-k8s.io/owned: ""}
spec:
  clusterName: c
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, cluster.x-k8s.io/cluster-name: c}}
    spec:
      clusterName: c
      version: v1.36.3
      bootstrap: {dataSecretName: join}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: PlatformTemplate, name: small}`
)

// Rollout returns a case in which a MachineDeployment is rolled out for the
// first time. run must run the MachineDeployment controller.
func Rollout(run func(env *reconciletest.Env) error) *reconciletest.Case {
	c := world(run, definition, template, cluster, deployment)
	c.Ignore = []string{ // each contains a random name
		"machinesets.cluster.x-k8s.io metadata.name", "machinesets.cluster.x-k8s.io metadata.labels",
		"machinesets.cluster.x-k8s.io spec.selector", "machinesets.cluster.x-k8s.io spec.template.metadata.labels",
	}
	return c
}

// Finalizer returns a case with a MachineSet of a topology. run must run the
// controller that adds a finalizer to such MachineSets.
func Finalizer(run func(env *reconciletest.Env) error) *reconciletest.Case {
	return world(run, cluster, set)
}

// Scale returns a case with a MachineSet of one Machine. run must run the
// MachineSet controller. The names of Machines are random.
func Scale(run func(env *reconciletest.Env) error) *reconciletest.Case {
	c := world(run, definition, platform, template, cluster, set)
	c.Ignore = []string{
		"machines.cluster.x-k8s.io metadata.name", "machines.cluster.x-k8s.io spec.infrastructureRef",
		"platforms.infrastructure.cluster.x-k8s.io metadata.name",
		"machinesets.cluster.x-k8s.io status.conditions", // their messages have the name
		"machinesets.cluster.x-k8s.io status.deprecated", // past events stay in these
		// a webhook, which is not here, refuses that others change only one
		"machinesets.cluster.x-k8s.io spec.selector", "machinesets.cluster.x-k8s.io spec.template.metadata.labels",
	}
	return c
}

// world returns a case whose program is run. Each of objects is the YAML of an
// object that exists when the program starts.
func world(run func(env *reconciletest.Env) error, objects ...string) *reconciletest.Case {
	c := &reconciletest.Case{
		Run: run,
		Resources: []metav1.APIResource{
			{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "customresourcedefinitions"},
			{
				Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "PlatformTemplate", Name: "platformtemplates",
				Namespaced: true,
			},
			{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "Platform", Name: "platforms", Namespaced: true},
		},
	}
	for kind, name := range map[string]string{
		"Cluster": "clusters", "MachineDeployment": "machinedeployments", "MachineSet": "machinesets", "Machine": "machines",
	} {
		c.Resources = append(c.Resources, metav1.APIResource{
			Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: kind, Name: name, Namespaced: true,
		})
	}
	for _, text := range objects {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			panic(err) // it is a constant
		}
		c.Objects = append(c.Objects, runtime.Object(object))
	}
	return c
}

// Options returns options in which a slow watch is delayed by more than ten
// seconds, the time for which the controller waits for its cache. known are
// findings to tolerate, as in KnownFindings. The options leave out the runs in
// which another client deletes or edits objects of the controller, because the
// controller does not recreate old MachineSets.
func Options(known ...string) *reconciletest.Options {
	return &reconciletest.Options{Budget: time.Hour, Lag: 15 * time.Second, SkipDrift: true, KnownFindings: known}
}
