// Package kubernetes explores unmodified controllers of kube-controller-manager
// in the versions that the .mod files require. The tests contain the findings.
// Tests called TestPair distinguish a version with a bug from a version without
// it.
package kubernetes
