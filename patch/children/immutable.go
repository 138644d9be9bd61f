package children

import (
	"context"
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

// countDeleted counts wanted children that are being deleted as recreated, since
// a finalizer may keep them for long. Otherwise each call would delete more.
func (c *call[T]) countDeleted() {
	for key := range c.wanted {
		child, ok := c.in.Get(key)
		if ok && child.GetDeletionTimestamp() != nil && c.relationOf(child) == mine {
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

// saysImmutable reports whether a server refuses the change of a field, not its
// value. There is no machine-readable reason for that, only words, which are
// the same for all built-in kinds.
func saysImmutable(cause metav1.StatusCause) bool {
	if cause.Field == "" || strings.HasPrefix(cause.Field, "metadata") {
		return false
	}
	text := strings.ToLower(cause.Message)
	return slices.ContainsFunc([]string{
		"immutable", "may not change", "may not be changed", "cannot be changed", "must not be changed", "are forbidden",
	}, func(words string) bool { return strings.Contains(text, words) })
}

// withoutChanges sets fields of edited to the values that they have in before.
// A path into a list stands for the whole list.
func withoutChanges(before, edited runtime.Object, fields []string) error {
	was, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return err
	}
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(edited)
	if err != nil {
		return err
	}
	for _, field := range fields {
		path, _, _ := strings.Cut(field, "[")
		names := strings.Split(path, ".")
		value, found, err := unstructured.NestedFieldCopy(was, names...)
		switch {
		case err != nil:
			return err
		case !found:
			unstructured.RemoveNestedField(is, names...)
		default:
			if err := unstructured.SetNestedField(is, value, names...); err != nil {
				return err
			}
		}
	}
	if u, ok := edited.(runtime.Unstructured); ok {
		u.SetUnstructuredContent(is)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(is, edited, true)
}

// afterImmutable handles a child of which the server has refused to change
// immutable fields. Up to MaxRecreate children are deleted, so that the next
// reconcile creates them again. For the others, the remaining changes are sent.
func (c *call[T]) afterImmutable(ctx context.Context, w Child[T], base T, fields []string, refusal error) (T, error) {
	refusal = fmt.Errorf("fields %s of it are immutable: delete it, give the child another name, or set "+
		"children.Options.MaxRecreate: %w", strings.Join(fields, ", "), refusal)
	if c.options.MaxRecreate > 0 && base.GetDeletionTimestamp() != nil {
		return base, fmt.Errorf("child %q is being deleted, and is created again when its finalizers %v are removed",
			bound.KeyOf(base), base.GetFinalizers())
	}
	if c.options.MaxRecreate > 0 {
		if err := c.confirm(); err != nil {
			return base, err
		}
	}
	if int(c.recreated.Add(1)) > c.options.MaxRecreate {
		got, err := c.write(ctx, w, base, fields)
		return got, errors.Join(refusal, err)
	}
	if err := patch.Delete(ctx, c.of, base, &patch.Options{Lock: base.GetResourceVersion() != ""}); err != nil {
		return base, err
	}
	return base, c.changed(fmt.Sprintf("child %q was deleted to be created again, since fields %s of it are immutable",
		bound.KeyOf(base), strings.Join(fields, ", ")))
}
