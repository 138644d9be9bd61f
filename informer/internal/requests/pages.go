package requests

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/rvorder"
	"github.com/homeostat/homeostat/internal/suspect"
)

// EachObject calls f with each object of a list, and returns the
// resourceVersion of the list. It reads all pages, because a server may answer
// in pages although the request has no limit, and an object may be on a later
// page. For example, the request selects one object by its name, but an
// aggregated API server ignores field selectors, and answers with pages of all
// objects.
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

// Pages checks that the pages of a list belong together, and that the list
// ends. Its methods may be called from several goroutines.
type Pages struct {
	// Filtered is set if objects are removed from the pages before Next sees
	// them. Many pages in a row may then be empty. For example, a replica with
	// one of many shards keeps few objects of a page.
	Filtered bool

	mu      sync.Mutex // guards the fields below
	version string     // the resourceVersion of the first page
	// count is the number of pages, and empty the number of pages without
	// objects since the last page with objects.
	count, empty int
	// seen has the hashes of the tokens, and of the first objects of the pages.
	seen map[uint64]struct{}
}

const (
	// mostPages is the number of pages after which a list counts as endless. A
	// list of ten million objects has 20,000 pages of the usual size.
	mostPages = 100_000
	// mostEmptyPages is the number of pages without objects, one after the
	// other, after which a list counts as endless. API servers send no empty
	// page that names a next page.
	mostEmptyPages = 100
)

//nolint:gochecknoglobals // one for the process
var pagesSeed = maphash.MakeSeed()

// Next returns an error if page cannot be the API server's answer to a request,
// or if the list does not seem to end. continued is the token of that request,
// "" for the first page. Next refuses these pages:
//
//   - A page that names a token, or begins with an object, of an earlier page.
//     Reading on would never end. For example, an HTTP cache that ignores the
//     query of a URL answers every request with the same page.
//   - A page with a different resourceVersion than the first page. It shows a
//     different moment, so an object may be on neither page.
//   - A page after too many pages without objects, unless Filtered is set.
//   - A page after too many other pages, because the objects of an endless list
//     would fill the memory.
func (p *Pages) Next(continued string, page runtime.Object) error {
	accessor, err := meta.ListAccessor(page)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	rv, token := accessor.GetResourceVersion(), accessor.GetContinue()
	if continued == "" {
		p.version, p.count, p.empty, p.seen = rv, 0, 0, nil
	}
	p.count++
	first := firstIn(page)
	if p.empty++; first != "" {
		p.empty = 0
	}
	if continued == "" && token == "" { // the usual list
		return nil
	}
	// Both are noted in any case.
	knownToken, knownObject := p.note("token", token), p.note("object", first)
	switch {
	case token != "" && (token == continued || knownToken):
		return suspect.Answerf("the next page of the list is %s again", pageName(token == continued))
	case knownObject:
		return suspect.Answerf("page %d of the list begins with the object %q, as an earlier page did", p.count, first)
	case p.empty > mostEmptyPages && token != "" && !p.Filtered:
		return suspect.Answerf("the list does not end: the last %d pages have no objects, and the server names one more page",
			p.empty)
	case p.count > mostPages && token != "":
		return fmt.Errorf("the list does not end: it has more than %d pages, which may not fit into memory: "+
			"check the server of this kind, and the proxies and gateways in between", mostPages)
	case continued != "" && p.version != rv && rvorder.Comparable(p.version, rv):
		return suspect.Answerf("the first page of the list has the resourceVersion %s, and a later one %s", p.version, rv)
	}
	return nil
}

func pageName(isSame bool) string {
	if isSame {
		return "this page"
	}
	return "an earlier page"
}

// Count returns the number of pages of the last list so far.
func (p *Pages) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// note remembers a value, and reports whether it was known. An empty value is
// not remembered.
func (p *Pages) note(kind, value string) (known bool) {
	if value == "" {
		return false
	}
	hash := maphash.String(pagesSeed, kind+value)
	if _, known = p.seen[hash]; known {
		return true
	}
	if p.seen == nil {
		p.seen = map[uint64]struct{}{}
	}
	p.seen[hash] = struct{}{}
	return false
}

// firstIn returns the namespace and the name of the first object of a page, or
// "" if there is no object.
func firstIn(page runtime.Object) (first string) {
	_ = meta.EachListItem(page, func(item runtime.Object) error {
		if object, err := meta.Accessor(item); err == nil {
			first = object.GetNamespace() + "/" + object.GetName()
		}
		return errFirst
	})
	return first
}

var errFirst = errors.New("stopped after the first object")
