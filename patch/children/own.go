package children

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/mark"
	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch"
)

// Own makes owner, an object of the given kind, the controller of child: the
// server deletes child with it, and reconcile.Owned reconciles owner when child
// changes. References to other owners stay. Own sends no request; call it in an
// edit of package patch, or before a create:
//
//	service := &corev1.Service{ … }
//	err := children.Own(site, v1.GroupVersion.WithKind("Website"), service)
//
// Own returns [ErrForeign] if child has another controller, or belongs to
// another owner by label (see [Options].ByLabel). It returns a terminal error
// for a nil argument, and for an owner without a UID, name or kind, because
// such an owner cannot come from the server. It also returns a terminal error
// for a child outside the owner's namespace: the garbage collector would delete
// a child in another namespace at once, and would never delete a child that has
// no namespace. If Own returns an error, it has not changed child.
func Own(owner metav1.Object, kind schema.GroupVersionKind, child metav1.Object) error {
	if bound.IsNil(owner) || bound.IsNil(child) {
		return terminal.Mark(fmt.Errorf("setting the owner of a child of a %s: the owner and the child must not be nil",
			kind.Kind))
	}
	if err := mayOwn(owner, kind, child.GetNamespace()); err != nil {
		return terminal.Mark(fmt.Errorf("setting the owner of %q: %w", bound.KeyOf(child), err))
	}
	if err := checkFree(owner, kind, child); err != nil {
		return fmt.Errorf("setting the owner of a child: %w", err)
	}
	ref := *metav1.NewControllerRef(owner, kind)
	refs := slices.Clone(child.GetOwnerReferences())
	if i := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == ref.UID }); i >= 0 {
		refs[i] = ref
	} else {
		refs = append(refs, ref)
	}
	child.SetOwnerReferences(refs)
	return nil
}

// mayOwn returns why owner cannot own a child in a namespace, or nil.
func mayOwn(owner metav1.Object, kind schema.GroupVersionKind, namespace string) error {
	ownerName := nameOf(owner, kind)
	switch {
	case kind.Version == "" || kind.Kind == "":
		return fmt.Errorf("the kind of owner %q is %q: must have a version and a kind", bound.KeyOf(owner), kind)
	case owner.GetUID() == "" || owner.GetName() == "":
		return fmt.Errorf("%s has no UID or no name: pass the object that the server returned", ownerName)
	case owner.GetNamespace() == "" || owner.GetNamespace() == namespace:
		return nil
	case namespace == "":
		return fmt.Errorf("%s has a namespace but its child does not: the garbage collector would never delete the child; "+
			"own it by label instead, see children.Options.ByLabel", ownerName)
	default:
		return fmt.Errorf("%s cannot own a child in namespace %q: the garbage collector would delete the child; "+
			"own it by label instead, see children.Options.ByLabel", ownerName, namespace)
	}
}

// checkFree returns an error that names the other owner of child, or nil if
// child has no other owner.
func checkFree(owner metav1.Object, kind schema.GroupVersionKind, child metav1.Object) error {
	refusal := &patch.ForeignError{Kind: kindOf(child), Key: bound.KeyOf(child)}
	controller := metav1.GetControllerOfNoCopy(child)
	if controller == nil {
		marked, ok := mark.Of(child)
		if !ok || marked.UID == owner.GetUID() {
			return nil
		}
		refusal.Owner = marked.String()
		refusal.Reason = fmt.Sprintf("%s owns it by its labels: give the child of %s a different name",
			marked, nameOf(owner, kind))
		return refusal
	}
	refusal.Owner = fmt.Sprintf("%s %q", controller.Kind, controller.Name)
	switch {
	case controller.UID == owner.GetUID():
		return nil
	case controller.Kind == kind.Kind && controller.Name == owner.GetName():
		refusal.Reason = fmt.Sprintf("it belongs to a deleted %s of that name, with UID %q: "+
			"the garbage collector has to delete it first", nameOf(owner, kind), controller.UID)
	default:
		refusal.Reason = fmt.Sprintf("%s %q with UID %q controls it: give the child of %s a different name",
			controller.Kind, controller.Name, controller.UID, nameOf(owner, kind))
	}
	return refusal
}

func nameOf(owner metav1.Object, kind schema.GroupVersionKind) string {
	return fmt.Sprintf("%s %q", kind.Kind, bound.NameOf(owner))
}
