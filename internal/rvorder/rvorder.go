// Package rvorder compares resourceVersions of one resource. Real API servers
// use growing numbers. The resourceVersions of fakes are often empty or have
// another form, and cannot be compared.
package rvorder

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Comparable reports whether all the resourceVersions can be compared with each
// other. For example, "" and "0" cannot, because neither is the version of an
// object.
func Comparable(rvs ...string) bool {
	for _, rv := range rvs {
		if _, err := resourceversion.CompareResourceVersion(rv, "1"); err != nil {
			return false
		}
	}
	return true
}

// Older reports whether resourceVersion a is older than b. It returns false if
// they cannot be compared.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
