// Package resourceslice tells versions of the ResourceSlice controller of DRA
// drivers apart, which is the package of that name in
// k8s.io/dynamic-resource-allocation. The .mod files have the versions.
package resourceslice
