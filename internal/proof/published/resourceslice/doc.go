// Package resourceslice explores versions of the ResourceSlice controller of
// DRA drivers, which is package resourceslice in
// k8s.io/dynamic-resource-allocation. It must find the bug in the versions that
// have it, and nothing in the others. The .mod files contain the versions.
package resourceslice
