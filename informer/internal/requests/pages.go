package requests

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EachObject calls f with each object of a list, and returns the
// resourceVersion of the list. It reads all pages, because a server may answer
// in pages although the request has no limit, and an object may be on a later
// page. For example, an aggregated API server that ignores field selectors may
// do so.
func EachObject(
	o metav1.ListOptions, list func(metav1.ListOptions) (runtime.Object, error), f func(runtime.Object) error,
) (rv string, err error) {
	for {
		page, err := list(o)
		if err != nil {
			return "", err
		}
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return "", err
		}
		if err := NextPage(o.Continue, page); err != nil {
			return "", err
		}
		if err := meta.EachListItem(page, f); err != nil {
			return "", err
		}
		if o.Continue = accessor.GetContinue(); o.Continue == "" {
			return accessor.GetResourceVersion(), nil
		}
	}
}

// NextPage returns an error if page was requested with the token continued, and
// names the same token for the next page. Reading on would then never end. For
// example, an HTTP cache that ignores the query of a URL answers every request
// with the same page.
func NextPage(continued string, page runtime.Object) error {
	accessor, err := meta.ListAccessor(page)
	if err == nil && continued != "" && accessor.GetContinue() == continued {
		return errors.New("the next page of the list is this page again: a proxy or gateway has sent it")
	}
	return err
}
