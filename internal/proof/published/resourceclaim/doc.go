// Package resourceclaim tells versions of the ResourceClaim controller of
// kube-controller-manager apart. The .mod files have the versions.
package resourceclaim
