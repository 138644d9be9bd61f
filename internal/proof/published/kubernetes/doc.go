// Package kubernetes explores controllers of kube-controller-manager,
// unmodified, of the versions in its .mod files. Its tests contain the
// findings; tests called TestPair distinguish versions.
package kubernetes
