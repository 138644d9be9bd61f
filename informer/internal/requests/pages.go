package requests

import (
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/rvorder"
)

// EachObject calls f with each object of a list, and returns the
// resourceVersion of the list. It reads all pages, because a server may answer
// in pages although the request has no limit, and an object may be on a later
// page. For example, an aggregated API server that ignores field selectors may
// do so.
func EachObject(
	o metav1.ListOptions, list func(metav1.ListOptions) (runtime.Object, error), f func(runtime.Object) error,
) (rv string, err error) {
	var pages Pages
	for {
		page, err := list(o)
		if err != nil {
			return "", err
		}
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return "", err
		}
		if err := pages.Next(o.Continue, page); err != nil {
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

// Pages checks that the pages of a list belong together. Its methods may be
// called from several goroutines.
type Pages struct {
	version atomic.Pointer[string] // the resourceVersion of the first page
}

// Next returns an error if page cannot be the API server's answer to a request
// with the token continued, which is "" for the first page. There are two such
// pages:
//
//   - A page that names the same token for the next page. Reading on would never
//     end. For example, an HTTP cache that ignores the query of a URL answers
//     every request with the same page.
//
//   - A page with a different resourceVersion than the first page. It shows a
//     different moment, so an object may be on neither page.
func (p *Pages) Next(continued string, page runtime.Object) error {
	accessor, err := meta.ListAccessor(page)
	if err != nil {
		return err
	}
	rv := accessor.GetResourceVersion()
	if continued == "" {
		p.version.Store(&rv)
		return nil
	}
	if accessor.GetContinue() == continued {
		return errors.New("the next page of the list is this page again: a proxy or gateway has sent it")
	}
	first := p.version.Load()
	if first != nil && *first != rv && rvorder.Comparable(*first, rv) {
		return fmt.Errorf("the first page of the list has the resourceVersion %s, and a later one %s: "+
			"a proxy or gateway has sent it", *first, rv)
	}
	return nil
}
