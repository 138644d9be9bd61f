package children

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/patch"
)

// countDeleted adds the wanted children that are still being deleted to the
// number of recreated children, because a finalizer may keep them for a long
// time. If they did not count, each call could delete more children.
func (c *call[T]) countDeleted() {
	for key := range c.wanted {
		child, ok := c.cache.Get(key)
		if ok && child.GetDeletionTimestamp() != nil && c.relationOf(child) == ownChild {
			c.recreated.Add(1)
		}
	}
}

// immutableFields returns the fields whose change a server has refused because
// they are immutable. It returns nil if the server has refused the write for
// any other reason, too.
func immutableFields(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		if !saysImmutable(cause) {
			return nil
		}
		if cause.Field != "" && !slices.Contains(fields, cause.Field) {
			fields = append(fields, cause.Field)
		}
	}
	return fields
}

// saysImmutable reports whether cause means that a field must not change, and
// not that its new value is invalid. Servers give no machine-readable reason
// for this, only a text. For a custom kind, the text quotes the validation
// rule, "failed rule: self == oldSelf", unless the CustomResourceDefinition has
// a message of its own.
func saysImmutable(cause metav1.StatusCause) bool {
	if cause.Field == "" || strings.HasPrefix(cause.Field, "metadata") {
		return false
	}
	text := strings.ToLower(cause.Message)
	return slices.ContainsFunc([]string{
		"immutable", "may not change", "may not be changed", "cannot be changed", "must not be changed", "are forbidden",
		"may not add or remove containers", "cannot change roleref",
	}, func(words string) bool { return strings.Contains(text, words) }) ||
		strings.HasSuffix(text, "failed rule: self == oldself")
}

// revertFields sets fields of edited to the values that they have in original,
// apart from their mutable members. A path into a list stands for the whole
// list, and for the field from which the server derives the list. For example,
// the server refuses a change of spec.clusterIP of a Service as a change of
// spec.clusterIPs[0].
func revertFields(original, edited runtime.Object, fields []keptField) error {
	originalFields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(original)
	if err != nil {
		return err
	}
	editedFields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(edited)
	if err != nil {
		return err
	}
	for _, field := range fields {
		if err := revertField(originalFields, editedFields, field); err != nil {
			return err
		}
		list, _, isElement := strings.Cut(field.path, "[")
		if first, isPlural := strings.CutSuffix(list, "s"); isElement && isPlural {
			if err := revertOwn(originalFields, editedFields, strings.Split(first, ".")); err != nil {
				return err
			}
		}
	}
	if u, ok := edited.(runtime.Unstructured); ok {
		u.SetUnstructuredContent(editedFields)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(editedFields, edited, true)
}

// revertOwn sets a field of edited to the value that it has in original. If
// original does not have the field, edited stays as it is.
func revertOwn(original, edited map[string]any, names []string) error {
	value, found, err := unstructured.NestedFieldCopy(original, names...)
	if err != nil || !found {
		return err
	}
	return unstructured.SetNestedField(edited, value, names...)
}

// revertField does what revertFields does, for one field. A server may name a
// field that neither object has and that meantFields does not know. Then
// revertField reverts the nearest field around it that one of them has.
func revertField(original, edited map[string]any, field keptField) error {
	path, _, _ := strings.Cut(field.path, "[")
	names := strings.Split(path, ".")
	value, found, err := unstructured.NestedFieldCopy(original, names...)
	_, foundToo, err2 := unstructured.NestedFieldNoCopy(edited, names...)
	for err == nil && err2 == nil && !found && !foundToo && len(names) > 1 {
		names = names[:len(names)-1]
		value, found, err = unstructured.NestedFieldCopy(original, names...)
		_, foundToo, err2 = unstructured.NestedFieldNoCopy(edited, names...)
	}
	if err = cmp.Or(err, err2); err != nil {
		return err
	}
	if members, ok := value.(map[string]any); ok {
		changed, _, _ := unstructured.NestedMap(edited, names...)
		for _, member := range field.mutable {
			copyMember(members, changed, strings.Split(member, "."))
		}
	}
	if !found {
		unstructured.RemoveNestedField(edited, names...)
		return nil
	}
	return unstructured.SetNestedField(edited, value, names...)
}

// handleImmutable handles the server's refusal to change immutable fields of a
// child. Up to MaxRecreate children are deleted, so that the next reconcile
// creates them again, unless that has not helped before. For the others, the
// remaining changes are sent.
func (c *call[T]) handleImmutable(ctx context.Context, w Child[T], base T, fields []string, refusal error) (T, error) {
	kept, fields := c.narrowFields(w, base, fields, refusal)
	names := strings.Join(fields, ", ")
	var wanted [sha256.Size]byte
	if c.options.MaxRecreate > 0 {
		if base.GetDeletionTimestamp() != nil {
			return base, fmt.Errorf("child %q is being deleted, and will be created again once its finalizers %v are removed",
				bound.KeyOf(base), base.GetFinalizers())
		}
		wanted = c.wantedIn(w, base, fields)
		if c.isFutile(base, wanted) {
			return c.keep(ctx, w, base, kept, fmt.Errorf("the child was deleted because its fields %s are immutable, and was "+
				"created again without the wanted values, perhaps because an admission webhook changes them or another client "+
				"has created it: not deleting it again, so delete it when that is mended: %w", names, refusal))
		}
		if err := c.confirm(); err != nil {
			return base, err
		}
	}
	if int(c.recreated.Add(1)) > c.options.MaxRecreate {
		return c.keep(ctx, w, base, kept, fmt.Errorf("the child's fields %s are immutable: delete the child, give it "+
			"another name, or set children.Options.MaxRecreate: %w", names, refusal))
	}
	if err := patch.Delete(ctx, c.clients, base, &patch.Options{Lock: base.GetResourceVersion() != ""}); err != nil {
		return base, err
	}
	c.noteDeletion(base, wanted)
	return base, c.changed(fmt.Sprintf("child %q was deleted to be created again, because its fields %s are immutable",
		bound.KeyOf(base), names))
}

// keep sends the changes of a child whose fields in kept stay as they are. It
// returns refusal, which says why, joined with the error of the write.
func (c *call[T]) keep(ctx context.Context, w Child[T], base T, kept []keptField, refusal error) (T, error) {
	got, err := c.writeRest(ctx, w, base, kept)
	return got, errors.Join(refusal, err)
}

// mostRefusals is how many times at most writeRest leaves out further fields. A
// server that refuses one field may not have looked at the next.
const mostRefusals = 2

// writeRest writes a wanted child, but does not change the fields in kept. If
// the server refuses further fields because they are immutable, writeRest
// leaves them out as a whole, and returns the refusal. For example, the server
// names the size of a PersistentVolumeClaim among the members that may change,
// and refuses a new size of a claim that is not bound.
func (c *call[T]) writeRest(ctx context.Context, w Child[T], base T, kept []keptField) (T, error) {
	var refusals error
	for tries := 0; ; tries++ {
		got, err := c.write(ctx, w, base, kept)
		refusals = errors.Join(refusals, err)
		fields := immutableFields(err)
		if len(fields) == 0 || tries == mostRefusals {
			return got, refusals
		}
		for _, path := range fields {
			kept = append(kept, keptField{path: path})
		}
	}
}
