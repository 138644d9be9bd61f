// Package resourceclaim explores versions of the ResourceClaim controller of
// kube-controller-manager. It must find the bug in the versions that have it,
// and nothing in the others. The .mod files contain the versions.
package resourceclaim
