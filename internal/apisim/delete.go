package apisim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func (x *exchange) remove() (*output, error) {
	opts, err := x.r.deleteOptions()
	if err != nil {
		return nil, err
	}
	current := x.t.objects[x.r.key()]
	if current == nil {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	if x.s.opts.Lifecycle && x.t.res.GVR() == namespaces && slices.Contains(immortal, x.r.Name) {
		return nil, apierrors.NewForbidden(x.t.res.groupResource(), x.r.Name,
			errors.New("this namespace may not be deleted"))
	}
	remaining, err := x.deleteObject(current, opts)
	if err != nil {
		return nil, err
	}
	if remaining != nil {
		return x.r.show(http.StatusOK, remaining)
	}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: x.r.Name, Group: x.t.res.Group, Kind: x.t.res.Resource, UID: types.UID(text(current.meta(), "uid")),
		},
	})
	return &output{code: http.StatusOK, body: body}, err
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// immortal lists the namespaces that cannot be deleted if Options.Lifecycle is
// set.
var immortal = []string{"default", "kube-system", "kube-public"}

// deleteOptions returns the options from the body or, without a body, from the
// query. If there is a body, the query is ignored. For example, a deletion whose
// body does not set dryRun is not a dry run, even if its query says dryRun=All.
func (r *request) deleteOptions() (*metav1.DeleteOptions, error) {
	opts := &metav1.DeleteOptions{}
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, opts); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if opts.Kind != "" && opts.Kind != "DeleteOptions" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("no kind %q is registered for version %q", opts.Kind,
				opts.APIVersion))
		}
		r.query["dryRun"] = opts.DryRun
	} else {
		opts.DryRun = r.query["dryRun"]
		if p := metav1.DeletionPropagation(r.query.Get("propagationPolicy")); p != "" {
			opts.PropagationPolicy = &p
		}
		if g := r.query.Get("gracePeriodSeconds"); g != "" {
			var seconds int64
			if _, err := fmt.Sscan(g, &seconds); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			opts.GracePeriodSeconds = &seconds
		}
	}
	if errs := metav1validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("DeleteOptions").GroupKind(), "", errs)
	}
	return opts, nil
}

// deleteObject deletes the object, or marks it as being deleted if finalizers
// or a grace period delay the deletion. It returns the object for the answer,
// or nil if the answer is a Status.
func (x *exchange) deleteObject(current *stored, opts *metav1.DeleteOptions) (*stored, error) {
	if err := precondition(x.t, current, opts.Preconditions); err != nil {
		return nil, err
	}
	finalizers := finalizersFor(&x.t.res, current, opts)
	grace := gracePeriod(&x.t.res, current, opts)
	if len(finalizers) > 0 || grace > 0 || x.s.namespaceWaits(x.t, current) {
		return x.markDeleted(current, finalizers, grace)
	}
	final := current
	if isPod(&x.t.res) { // pods are marked even if no finalizer delays their deletion
		var err error
		if final, err = x.markDeleted(current, nil, 0); err != nil {
			return nil, err
		}
	}
	if !x.r.dryRun() {
		x.s.version++
		x.s.commit(x.t, x.r, final, nil)
	}
	if x.t.res.builtin.deletedObject {
		return final.withVersion(x.s.version)
	}
	return nil, nil
}

func isPod(r *Resource) bool { return r.Group == "" && r.Resource == "pods" }

// markDeleted marks an object as being deleted, and replaces its finalizers. If
// the object is marked already, its deletionTimestamp stays, and its grace
// period can only become shorter. It commits the object if this changes it,
// unless the call is a dry run.
func (x *exchange) markDeleted(current *stored, finalizers []string, grace int64) (*stored, error) {
	obj := clone(current.obj)
	m := metaOf(obj)
	if m["deletionTimestamp"] == nil {
		m["deletionTimestamp"] = x.s.timeAfter(time.Duration(grace) * time.Second)
		if g := number(m, "generation"); g > 0 {
			m["generation"] = g + 1
		}
		m["deletionGracePeriodSeconds"] = grace
		if x.t.res.Resource == "namespaces" && x.t.res.Group == "" {
			delete(m, "deletionGracePeriodSeconds")
		}
	}
	if grace < number(m, "deletionGracePeriodSeconds") {
		m["deletionGracePeriodSeconds"] = grace
	}
	delete(m, "finalizers")
	if len(finalizers) > 0 {
		list := make([]any, len(finalizers))
		for i, f := range finalizers {
			list[i] = f
		}
		m["finalizers"] = list
	}
	if x.t.res.Group == "" && x.t.res.Resource == "namespaces" {
		status, _ := obj["status"].(object)
		if status == nil {
			status = object{}
		}
		status["phase"] = "Terminating"
		obj["status"] = status
	}
	if sameJSON(obj, current.obj) || x.r.dryRun() {
		return newStored(obj, current.version)
	}
	fresh, err := newStored(obj, x.s.version+1)
	if err != nil {
		return nil, err
	}
	x.s.version++
	x.s.commit(x.t, x.r, current, fresh)
	return fresh, nil
}

func precondition(t *table, current *stored, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	m, name := current.meta(), current.key.Name
	kind := schema.GroupResource{Group: t.res.Group, Resource: t.res.Kind} // the real server puts the kind there
	if p.UID != nil && string(*p.UID) != text(m, "uid") {
		return apierrors.NewConflict(kind, name, fmt.Errorf("the UID in the precondition (%s) does not match"+
			" the UID in record (%s). The object might have been deleted and then recreated", *p.UID, text(m, "uid")))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != formatVersion(current.version) {
		return apierrors.NewConflict(kind, name, fmt.Errorf("the ResourceVersion in the precondition (%s) does"+
			" not match the ResourceVersion in record (%d). The object might have been modified",
			*p.ResourceVersion, current.version))
	}
	return nil
}

// finalizersFor returns the object's finalizers after adding and removing the
// finalizers of the garbage collector according to the caller's policy.
func finalizersFor(r *Resource, current *stored, opts *metav1.DeleteOptions) []string {
	finalizers := finalizersOf(current.obj)
	remaining := func(f string) []string {
		return slices.DeleteFunc(slices.Clone(finalizers), func(x string) bool { return x == f })
	}
	policy := metav1.DeletionPropagation("")
	switch {
	case r.Resource == "events" && r.builtin.typed: // they have no dependents
		return finalizers
	case opts.PropagationPolicy != nil:
		policy = *opts.PropagationPolicy
	case opts.OrphanDependents != nil && *opts.OrphanDependents: //nolint:staticcheck // deprecated, and still served
		policy = metav1.DeletePropagationOrphan
	case r.builtin.orphans && opts.OrphanDependents == nil && //nolint:staticcheck // deprecated, and still served
		!slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationOrphan
	}
	switch policy {
	case metav1.DeletePropagationOrphan:
		return append(remaining(metav1.FinalizerDeleteDependents), missing(finalizers, metav1.FinalizerOrphanDependents)...)
	case metav1.DeletePropagationForeground:
		return append(remaining(metav1.FinalizerOrphanDependents), missing(finalizers, metav1.FinalizerDeleteDependents)...)
	case metav1.DeletePropagationBackground:
		finalizers = remaining(metav1.FinalizerOrphanDependents)
		return slices.DeleteFunc(finalizers, func(x string) bool { return x == metav1.FinalizerDeleteDependents })
	}
	return finalizers
}

func missing(have []string, f string) []string {
	if slices.Contains(have, f) {
		return nil
	}
	return []string{f}
}

// gracePeriod returns how many seconds a Pod that runs on a node has to end. It
// is 0 for other objects.
func gracePeriod(r *Resource, current *stored, opts *metav1.DeleteOptions) int64 {
	if !isPod(r) {
		return 0
	}
	spec, _ := current.obj["spec"].(object)
	status, _ := current.obj["status"].(object)
	if phase := text(status, "phase"); text(spec, "nodeName") == "" || phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	grace := int64(30)
	if _, set := spec["terminationGracePeriodSeconds"]; set {
		grace = number(spec, "terminationGracePeriodSeconds")
	}
	if opts.GracePeriodSeconds != nil {
		grace = max(*opts.GracePeriodSeconds, 0)
	}
	if m := current.meta(); m["deletionTimestamp"] != nil {
		grace = min(grace, number(m, "deletionGracePeriodSeconds"))
	}
	return grace
}

// namespaceWaits reports whether the deletion of a namespace must wait, because
// it still has finalizers in its spec. Without Options.Lifecycle, no namespace
// waits.
func (s *store) namespaceWaits(t *table, namespace *stored) bool {
	if !s.opts.Lifecycle || t.res.Group != "" || t.res.Resource != "namespaces" {
		return false
	}
	spec, _ := namespace.obj["spec"].(object)
	list, _ := spec["finalizers"].([]any)
	return len(list) > 0
}

func (x *exchange) removeAll() (*output, error) {
	if x.t.res.Namespaced && x.r.Namespace == "" {
		return nil, apierrors.NewMethodNotSupported(x.t.res.groupResource(), x.r.Verb)
	}
	opts, err := x.r.deleteOptions()
	if err != nil {
		return nil, err
	}
	match, err := newSelector(x.s, &x.t.res, x.r)
	if err != nil {
		return nil, err
	}
	l := listed{version: x.s.version}
	for _, current := range x.t.objectsAt(x.s.version) {
		if !match.matches(current) {
			continue
		}
		single := *x.r
		single.Name, single.Namespace = current.key.Name, current.key.Namespace
		l.items = append(l.items, current)
		if _, err := (&exchange{s: x.s, t: x.t, r: &single}).deleteObject(current, opts); err != nil {
			return nil, err
		}
	}
	return l.output(x.t, x.r)
}
