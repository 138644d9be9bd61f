// Package resourceslice explores versions of the ResourceSlice controller of
// DRA drivers, package resourceslice in k8s.io/dynamic-resource-allocation. The
// explorations must find a bug in the versions that have it, and find no bug in
// the others. The .mod files contain the versions.
package resourceslice
