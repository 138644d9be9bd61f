package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/diff"
)

// fieldTree is a set of fields in the form of [metav1.FieldsV1].
type fieldTree = map[string]any

// takeOver makes the Applier own what the managers of Options.TakeOver have set
// by updates. If there are fields to take over, takeOver patches the managed
// fields, and returns the object as the server then has it. Otherwise it
// returns cached.
func (a *Applier[C, T]) takeOver(ctx context.Context, cached T, o *Options) (T, error) {
	client := any(a.clients(cached.GetNamespace()))
	shown, err := a.managed(ctx, client, cached, o)
	if err != nil {
		return cached, err
	}
	fields, err := takenOver(shown, o)
	if fields == nil || err != nil {
		return cached, err
	}
	cached = shown
	value, err := json.Marshal(fields)
	if err != nil {
		return cached, err
	}
	patcher, ok := client.(Client[T])
	if !ok {
		return cached, errors.New("the client has no method Patch, which patch.Options.TakeOver needs")
	}
	data := append([]byte(`[{"op":"replace","path":"/metadata/managedFields","value":`), value...)
	locked := lockIf(Options{FieldManager: o.FieldManager, DryRun: o.DryRun}, cached, true)
	return send(ctx, patcher, cached,
		diff.Patch{Data: append(data, "}]"...), Style: diff.Operations, Fields: []string{"metadata.managedFields"}}, locked)
}

// managed returns the object with its managed fields. If the cache has dropped
// them, managed reads the object from the server. It returns cached itself if
// there is nothing to take over: if this Applier has applied to the object
// before, or if the object was deleted or recreated. An object without a UID is
// from a fake client, and is returned as it is, too.
func (a *Applier[C, T]) managed(ctx context.Context, client any, cached T, o *Options) (T, error) {
	if len(cached.GetManagedFields()) > 0 || cached.GetUID() == "" ||
		a.knows(endpoint{bound.KeyOf(cached), o.Subresource}, cached.GetUID()) {
		return cached, nil
	}
	live, err := get(ctx, client, cached)
	switch {
	case err == nil && live.GetUID() == cached.GetUID():
		return live, nil
	case err == nil, absent.From(client, err, cached): // the precondition on the UID refuses the apply
		return cached, nil
	}
	return cached, fmt.Errorf("reading the managed fields, which the cache has dropped: %w", err)
}

// takenOver returns the managed fields of obj after the takeover. In them, the
// fields that the managers of o.TakeOver have set by updates count as applied
// by the field manager. It returns nil if there are no fields to take over.
//
// Finalizers and owner references stay with the managers that set them, because
// an apply that does not mention them would remove them. Fields that were set
// in a different API version stay with their managers, too, because they may
// have other names there.
func takenOver(obj informer.Object, o *Options) ([]metav1.ManagedFieldsEntry, error) {
	var candidates, kept []metav1.ManagedFieldsEntry
	var applied *metav1.ManagedFieldsEntry
	for _, e := range obj.GetManagedFields() {
		switch isApplied := e.Manager == o.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply; {
		case e.Subresource != o.Subresource || e.FieldsV1 == nil:
			kept = append(kept, e)
		case isApplied:
			applied = e.DeepCopy()
		case e.Operation == metav1.ManagedFieldsOperationUpdate && slices.Contains(o.TakeOver, e.Manager):
			candidates = append(candidates, e)
		default:
			kept = append(kept, e)
		}
	}
	taken := fieldTree{}
	for _, e := range candidates {
		fields, err := fieldsOf(e)
		if err != nil {
			return nil, err
		}
		if applied == nil {
			applied = &metav1.ManagedFieldsEntry{
				APIVersion: e.APIVersion, Time: e.Time, FieldsType: e.FieldsType, Subresource: e.Subresource,
			}
		}
		if e.APIVersion != applied.APIVersion { // the fields of another version may have other names
			kept = append(kept, e)
			continue
		}
		if rest := withhold(fields); len(rest) > 0 {
			e.FieldsV1 = encodeFields(rest)
			kept = append(kept, e)
		}
		unite(taken, fields)
	}
	if len(taken) == 0 {
		return nil, nil
	}
	ownFields, err := fieldsOf(*applied)
	if err != nil {
		return nil, err
	}
	unite(taken, ownFields)
	applied.Manager, applied.Operation = o.FieldManager, metav1.ManagedFieldsOperationApply
	applied.FieldsV1 = encodeFields(taken)
	return append(kept, *applied), nil
}

func fieldsOf(e metav1.ManagedFieldsEntry) (fieldTree, error) {
	fields := fieldTree{}
	if e.FieldsV1 == nil {
		return fields, nil
	}
	if err := json.Unmarshal([]byte(e.FieldsV1.GetRawString()), &fields); err != nil {
		return nil, fmt.Errorf("reading the managed fields of %q: %w", e.Manager, err)
	}
	return fields, nil
}

func encodeFields(fields fieldTree) *metav1.FieldsV1 {
	data, _ := json.Marshal(fields) // it was JSON
	return metav1.NewFieldsV1(string(data))
}

// withhold removes the finalizers and the owner references from fields, and
// returns them. They are not taken over.
func withhold(fields fieldTree) fieldTree {
	meta, _ := fields["f:metadata"].(fieldTree)
	withheld := fieldTree{}
	for _, name := range []string{"f:finalizers", "f:ownerReferences"} {
		if f, ok := meta[name]; ok {
			withheld[name] = f
			delete(meta, name)
		}
	}
	if _, own := meta["."]; len(meta) == 0 || own && len(meta) == 1 {
		delete(fields, "f:metadata")
	}
	if len(withheld) == 0 {
		return nil
	}
	return fieldTree{"f:metadata": withheld}
}

// unite adds fields to dst.
func unite(dst, fields fieldTree) {
	for name, added := range fields {
		nested, ok := dst[name].(fieldTree)
		addedTree, addedOK := added.(fieldTree)
		if ok && addedOK {
			unite(nested, addedTree)
		} else {
			dst[name] = added
		}
	}
}
