package apisim

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const staleVersion = "the object has been modified; please apply your changes to the latest version and try again"

func (x *exchange) update() (*output, error) {
	obj, err := decodeBody(x.t, x.r)
	if err != nil {
		return nil, err
	}
	if err := x.checkSchema(obj, x.r.body); err != nil {
		return nil, err
	}
	current := x.t.objects[x.r.key()]
	if current == nil {
		return x.updateMissing(obj)
	}
	if uid := text(metaOf(obj), "uid"); uid != "" && uid != text(current.meta(), "uid") {
		return nil, wrongUID(x.t, x.r, uid, text(current.meta(), "uid"))
	}
	fresh, err := x.replace(current, obj)
	if err != nil {
		return nil, err
	}
	return x.r.show(http.StatusOK, fresh)
}

func (x *exchange) updateMissing(obj object) (*output, error) {
	if !x.t.res.builtin.createOnUpdate || x.r.Subresource != "" {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	if uid := text(metaOf(obj), "uid"); uid != "" {
		return nil, wrongUID(x.t, x.r, uid, "")
	}
	delete(metaOf(obj), "resourceVersion")
	metaOf(obj)["name"] = x.r.Name
	fresh, err := x.admit(obj)
	if err != nil {
		return nil, err
	}
	return x.r.show(http.StatusCreated, fresh)
}

func wrongUID(t *table, r *request, want, have string) error {
	return apierrors.NewConflict(t.res.groupResource(), r.Name, fmt.Errorf("StorageError: invalid object, "+
		"Code: 4, Key: /registry/%s/%s, "+
		"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
		t.res.Resource, r.key(), want, have))
}

// replace commits the result of an update or a patch, and returns the object as
// it then is. It commits nothing if the object has not changed, or for a dry
// run. It commits the deletion if the object is being deleted, and the update
// leaves it without a finalizer and a grace period.
func (x *exchange) replace(current *stored, obj object) (*stored, error) {
	if err := checkVersion(x.t, x.r, current, obj); err != nil {
		return nil, err
	}
	merged, err := x.merge(current, obj)
	if err != nil {
		return nil, err
	}
	metaOf(merged)["resourceVersion"] = formatVersion(current.version)
	if reflect.DeepEqual(merged, current.obj) || onlyTimesDiffer(merged, current.obj) {
		return current, nil
	}
	if x.r.dryRun() {
		return newStored(merged, current.version)
	}
	fresh, err := newStored(merged, x.s.version+1)
	if err != nil {
		return nil, err
	}
	x.s.version++
	if finished(fresh) {
		x.s.commit(x.t, x.r, current, nil)
		// The real server does not answer with the version of the deletion
		// either.
		return fresh.withVersion(current.version)
	}
	x.s.commit(x.t, x.r, current, fresh)
	return fresh, nil
}

// onlyTimesDiffer reports whether only the times of field owners have changed.
// The server does not store such a change. For example, an apply of a Secret's
// stringData changes no stored field if the data stays the same.
func onlyTimesDiffer(obj, old object) bool {
	untimed := func(entry any) object {
		fields, _ := entry.(object)
		fields = maps.Clone(fields)
		delete(fields, "time")
		return fields
	}
	owners, _ := metaOf(obj)["managedFields"].([]any)
	oldOwners, _ := metaOf(old)["managedFields"].([]any)
	if len(owners) == 0 || !slices.EqualFunc(owners, oldOwners, func(a, b any) bool {
		return reflect.DeepEqual(untimed(a), untimed(b))
	}) {
		return false
	}
	masked, meta := maps.Clone(obj), maps.Clone(metaOf(obj))
	masked["metadata"], meta["managedFields"] = meta, oldOwners
	return reflect.DeepEqual(masked, old)
}

// finished reports whether an object that is being deleted has no finalizer and
// no grace period left.
func finished(o *stored) bool {
	m := o.meta()
	return m["deletionTimestamp"] != nil && number(m, "deletionGracePeriodSeconds") == 0 &&
		len(finalizersOf(o.obj)) == 0
}

// brokenVersion returns the server's error for a resourceVersion that is not a
// number.
func brokenVersion(rv string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: fmt.Sprintf("strconv.ParseUint: parsing %q: invalid syntax", rv),
	}}
}

func checkVersion(t *table, r *request, current *stored, obj object) error {
	rv := text(metaOf(obj), "resourceVersion")
	if rv == "0" { // 0 means the same as no version
		rv = ""
	}
	if _, err := strconv.ParseUint(rv, 10, 64); rv != "" && err != nil {
		return brokenVersion(rv)
	}
	switch {
	case rv == "" && !t.res.builtin.unconditional:
		kind := schema.GroupKind{Group: t.res.Group, Kind: t.res.Resource}
		return apierrors.NewInvalid(kind, r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	case rv != "" && rv != formatVersion(current.version):
		return apierrors.NewConflict(t.res.groupResource(), r.Name, errors.New(staleVersion))
	}
	return nil
}

// merge returns the stored object with the fields of obj that this call may
// change, and with the fields that the server maintains.
func (x *exchange) merge(current *stored, obj object) (object, error) {
	old := current.obj
	switch {
	case x.r.Subresource == "status":
		obj = statusOnly(x.t, old, obj)
	case x.t.res.Status:
		carry(obj, old, "status")
	}
	oldMeta := current.meta()
	keepMeta(metaOf(obj), oldMeta)
	var err error
	switch x.t.res.groupResource() {
	case schema.GroupResource{Resource: "namespaces"}:
		prepareNamespace(metaOf(obj))
		carry(obj, old, "spec")
	case schema.GroupResource{Resource: "services"}:
		err = allocateService(x, obj, old)
	case schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}:
		err = admitClass(x, obj)
	}
	if err != nil {
		return nil, err
	}
	x.mutated(obj)
	if obj, err = canonical(&x.t.res, obj); err != nil {
		return nil, asPatch(x.r, err)
	}
	if err := x.validUpdate(obj, old); err != nil {
		return nil, err
	}
	if obj, err = x.trackFields(current, obj); err != nil {
		return nil, err
	}
	if counts := !x.t.res.builtin.noGeneration && !x.t.res.builtin.fixedGeneration; counts &&
		specChanged(&x.t.res, old, obj) {
		metaOf(obj)["generation"] = number(oldMeta, "generation") + 1
	}
	return obj, nil
}

// keepMeta completes m, the metadata in an update, from old, the stored
// metadata. It copies the fields that an update cannot change, such as the
// creationTimestamp. It copies the UID, the name and the namespace if m does
// not have them.
func keepMeta(m, old object) {
	carry(m, old, "creationTimestamp", "generation", "selfLink")
	for _, f := range []string{"uid", "name", "namespace"} {
		if text(m, f) == "" {
			carry(m, old, f)
		}
	}
	if old["deletionTimestamp"] != nil {
		carry(m, old, "deletionTimestamp")
		if m["deletionGracePeriodSeconds"] == nil {
			carry(m, old, "deletionGracePeriodSeconds")
		}
	}
}

// statusOnly returns the old object with the new status. For built-in kinds, it
// also has the new metadata, apart from a few fields that such an update does
// not change.
func statusOnly(t *table, old, obj object) object {
	fresh := clone(old)
	carry(fresh, obj, "status")
	m, sent := metaOf(fresh), metaOf(obj)
	if t.res.builtin.typed { // updates of their status also change metadata
		fresh["metadata"] = sent
		switch t.res.Resource {
		case "deployments":
			carry(sent, m, "labels")
		case "pods":
			carry(sent, m, "ownerReferences")
		}
		return fresh
	}
	carry(m, sent, "resourceVersion", "managedFields")
	return fresh
}

// specChanged reports whether the objects differ in any field except metadata
// and, if status is a subresource, status. The labels of an EndpointSlice count
// as part of its spec.
func specChanged(r *Resource, old, obj object) bool {
	// The labels of an EndpointSlice count as its spec.
	if r.Resource == "endpointslices" && !reflect.DeepEqual(metaOf(obj)["labels"], metaOf(old)["labels"]) {
		return true
	}
	differs := func(a, b object) bool {
		for k, v := range a {
			if k == "metadata" || k == "status" && r.Status {
				continue
			}
			if !reflect.DeepEqual(v, b[k]) {
				return true
			}
		}
		return false
	}
	return differs(old, obj) || differs(obj, old)
}
