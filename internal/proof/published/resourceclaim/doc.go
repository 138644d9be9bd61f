// Package resourceclaim explores versions of the ResourceClaim controller of
// kube-controller-manager. The explorations must find a bug in the versions
// that have it, and find no bug in the others. The .mod files contain the
// versions.
package resourceclaim
