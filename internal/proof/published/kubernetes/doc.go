// Package kubernetes explores controllers of kube-controller-manager, unmodified, of the versions in its .mod files. Its
// tests say what is found; those called TestPair tell versions apart.
package kubernetes
