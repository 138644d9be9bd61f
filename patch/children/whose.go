package children

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/mark"
	"github.com/homeostat/homeostat/patch"
)

// ownersIn returns the values by which the index finds a child: the UID of its
// controller or, if it has no controller but a mark, the UID and the name of
// the owner in the mark.
func ownersIn[T informer.Object](child T) []string {
	if controller := metav1.GetControllerOfNoCopy(child); controller != nil {
		return []string{string(controller.UID)}
	}
	owner, ok := mark.Of(child)
	switch {
	case !ok:
		return nil
	case owner.Name == "":
		return []string{string(owner.UID)}
	}
	return []string{string(owner.UID), owner.ID()}
}

// markOf returns the mark of the children of an owner.
func markOf(kind schema.GroupVersionKind, key types.NamespacedName, uid types.UID) mark.Owner {
	return mark.Owner{GroupKind: kind.GroupKind(), NamespacedName: key, UID: uid}
}

// relation says whether an object is a child of an owner.
type relation int

const (
	ownChild relation = iota
	orphan            // the object has neither a controller nor a mark
	former            // the object's mark has the owner's name and a different UID
	foreign           // the object belongs to another owner
)

// relationOf returns the relation of obj to the owner. If obj has a controller,
// its mark does not count.
func (c *call[T]) relationOf(obj metav1.Object) relation {
	if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
		if controller.UID == c.owner.GetUID() {
			return ownChild
		}
		return foreign
	}
	owner, ok := mark.Of(obj)
	switch {
	case !ok:
		return orphan
	case owner.UID == c.owner.GetUID():
		return ownChild
	case c.options.ByLabel && owner.ID() == c.mark.ID() && owner.Origin == c.mark.Origin:
		return former
	}
	return foreign
}

// isCopy reports whether an object is the copy of a child, made by another
// client. An object with a controller is not a copy, because its mark does not
// count.
func isCopy(obj metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(obj) == nil && mark.IsCopied(obj)
}

// mayWrite returns why obj must not be written, or nil. obj may be a new
// object.
func (c *call[T]) mayWrite(obj T) error {
	switch relation := c.relationOf(obj); {
	case relation == ownChild, relation == orphan && obj.GetUID() == "": // it is new
		return nil
	case relation == former, relation == orphan && c.options.adopts(obj):
		return c.confirm() // an owner that was deleted must not adopt it
	case relation == orphan:
		return &patch.ForeignError{Kind: kindOf(obj), Key: bound.KeyOf(obj), Reason: "it exists and has no owner: " +
			"delete it, give it the labels of children.Options.Mark, or set children.Options.Adopt"}
	}
	return checkFree(c.owner, c.kind, obj)
}

// kindOf returns the kind of an object. If the object does not contain its
// kind, kindOf returns the name of its Go type.
func kindOf(obj metav1.Object) string {
	if o, ok := obj.(informer.Object); ok {
		if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
			return kind
		}
	}
	name := fmt.Sprintf("%T", obj)
	return name[strings.LastIndexAny(name, ".*")+1:]
}

// makeChild makes obj a child. It overwrites the changes that an edit has made
// to the labels of Options.Mark, to the mark and to the controller.
func (c *call[T]) makeChild(obj T) error {
	obj.SetLabels(labels.Merge(obj.GetLabels(), c.options.Mark))
	byLabel, uid := c.options.ByLabel, c.owner.GetUID()
	refs := slices.Clone(obj.GetOwnerReferences())
	obj.SetOwnerReferences(slices.DeleteFunc(refs, func(r metav1.OwnerReference) bool {
		return r.Controller != nil && *r.Controller && (byLabel || r.UID != uid)
	}))
	if byLabel {
		c.mark.Put(obj)
		return nil
	}
	return Own(c.owner, c.kind, obj)
}
