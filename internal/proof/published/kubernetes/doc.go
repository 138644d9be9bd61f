// Package kubernetes explores controllers of kube-controller-manager, unmodified: ReplicaSet, Deployment, StatefulSet
// and Job of the version in go.mod. Its tests say what is found.
package kubernetes
