package informer

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// errFixedScope is the answer to SetNamespaces of informers made with For.
var errFixedScope = errors.New("the client is bound to its namespace: make the informer with ForNamespaces")

// ForNamespaces returns an informer of Options.Namespaces, each with a list and
// a watch of its own, so that rights in these namespaces are enough:
//
//	pods := informer.ForNamespaces(clientset.CoreV1().Pods, &informer.Options{Namespaces: []string{"a", "b"}})
//
// It starts nothing, see For.
func ForNamespaces[C Client[T, L], T Object, L runtime.Object](of func(namespace string) C, o *Options) *Informer[T] {
	bound := func(namespace string) source {
		if of == nil {
			return source{namespace: namespace, fault: errNoClients}
		}
		s := sourceOf[T, L](of(namespace))
		if s.fault != nil {
			s.fault = errNilClientOf(namespace)
		}
		s.namespace = namespace
		return s
	}
	var sources []source
	for _, namespace := range scopeOf(o.withDefaults().Namespaces) {
		sources = append(sources, bound(namespace))
	}
	i := newInformer[T](sources, o)
	i.of = bound
	return i
}

// scopeOf returns namespaces in order and without duplicates, and "" for none.
func scopeOf(namespaces []string) []string {
	if len(namespaces) == 0 {
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(namespaces)))
}

// SetNamespaces makes an informer of ForNamespaces watch others: all if there
// are none. Watches of namespaces that stay go on. Objects of those that go are
// handed on as Deleted before SetNamespaces returns; HasSynced is false until
// the new ones have been listed. It must not be called from a handler.
func (i *Informer[T]) SetNamespaces(namespaces ...string) error {
	o := Options{Namespaces: namespaces}
	if err := o.validate(); err != nil {
		return fmt.Errorf("changing the namespaces of the informer of %s: %w", i.Name(), err)
	}
	if i.of == nil {
		return fmt.Errorf("changing the namespaces of the informer of %s: %w", i.Name(), errFixedScope)
	}
	i.settling.Lock()
	defer i.settling.Unlock()
	wanted := scopeOf(namespaces)
	stays := func(namespace string) bool { return slices.Contains(wanted, namespace) }

	i.mu.Lock()
	var kept []source
	for _, s := range i.sources {
		if stays(s.namespace) {
			kept = append(kept, s)
		}
	}
	fresh, err := i.missing(wanted, kept)
	if err != nil {
		i.mu.Unlock()
		return fmt.Errorf("changing the namespaces of the informer of %s: %w", i.Name(), err)
	}
	i.sources = slices.Concat(kept, fresh)
	session := i.session
	var gone []*reflection[T]
	if session != nil {
		gone = session.release(stays)
	}
	i.mu.Unlock()

	for _, r := range gone {
		r.cancel()
		<-r.ended
		i.seen.forget(r.source.namespace)
	}
	if !stays("") {
		i.expel(func(namespace string) bool { return !stays(namespace) })
	}
	i.mu.Lock()
	if session != nil && i.session == session && !session.stopping {
		for _, s := range fresh {
			i.watch(session, s)
		}
	}
	i.mu.Unlock()
	i.handedOn()
	return nil
}

// missing returns sources of the wanted namespaces that are not among kept.
func (i *Informer[T]) missing(wanted []string, kept []source) (fresh []source, err error) {
	for _, namespace := range wanted {
		if !slices.ContainsFunc(kept, func(s source) bool { return s.namespace == namespace }) {
			s := i.of(namespace)
			fresh, err = append(fresh, s), errors.Join(err, s.fault)
		}
	}
	return fresh, err
}

// release removes the watches of namespaces that do not stay and returns them.
// The caller holds the Informer's mu.
func (s *session[T]) release(stays func(namespace string) bool) (gone []*reflection[T]) {
	var kept []*reflection[T]
	for _, r := range s.watches {
		if stays(r.source.namespace) {
			kept = append(kept, r)
		} else {
			gone = append(gone, r)
		}
	}
	s.watches = kept
	return gone
}

// expel removes the objects of namespaces and hands that on.
func (i *Informer[T]) expel(from func(namespace string) bool) {
	i.writing.Lock()
	kept := slices.DeleteFunc(i.state().root.appendItems(nil), func(it *item[T]) bool {
		return from(it.key.Namespace)
	})
	i.settle("", kept, false, nil)
	i.writing.Unlock()
	i.deliver()
}
