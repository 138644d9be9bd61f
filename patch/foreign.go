package patch

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
)

// ErrForeign means that an object was not written because it is not the program's. The
// error is a [ForeignError], which names the object and its owner.
var ErrForeign = errors.New("the object is not the program's")

// ForeignError is the refusal to write an object that belongs to another owner, or to
// none. It satisfies errors.Is(err, [ErrForeign]). For example, in a condition:
//
//	if foreign, ok := errors.AsType[*patch.ForeignError](err); ok {
//		meta.SetStatusCondition(&edit.Status.Conditions, metav1.Condition{
//			Type: "Ready", Status: "False", Reason: "Conflict", Message: foreign.Error()})
//	}
type ForeignError struct {
	// Kind is the object's kind, such as "Secret".
	Kind string
	// Key is the object's namespace and name.
	Key types.NamespacedName
	// Owner says whose it is, such as `Certificate "shop"`. It is empty if nobody owns it.
	Owner string
	// Reason says why it was not written, and what the way out is.
	Reason string
}

// Error returns the reason, with the object.
func (e *ForeignError) Error() string { return fmt.Sprintf("%s %q: %s", e.Kind, e.Key, e.Reason) }

// Is reports whether target is [ErrForeign].
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// checkController returns a check that refuses to write an object that another owner
// controls than the edit would give it.
func checkController[T informer.Object](o *Options, edit func(T)) func(cached, edited informer.Object) error {
	return func(cached, edited informer.Object) error {
		was := metav1.GetControllerOfNoCopy(cached)
		if was == nil || o != nil && o.Adopt {
			return nil
		}
		foreign := &ForeignError{Kind: kindOf(cached), Key: bound.KeyOf(cached)}
		foreign.Owner = fmt.Sprintf("%s %q", was.Kind, was.Name)
		for _, is := range edited.GetOwnerReferences() {
			if is.Controller != nil && *is.Controller && is.UID != was.UID {
				foreign.Reason = fmt.Sprintf("%s %q with UID %q controls it, %s %q with UID %q cannot adopt it: "+
					"choose another name", was.Kind, was.Name, was.UID, is.Kind, is.Name, is.UID)
				return foreign
			}
		}
		if wouldControl(cached, edit, was.UID) {
			return nil
		}
		foreign.Reason = fmt.Sprintf("%s %q with UID %q controls it, and the edit does not name it as the controller: "+
			"choose another name, patch it with patch.Merge, or set patch.Options.Adopt", was.Kind, was.Name, was.UID)
		return foreign
	}
}

// wouldControl reports whether edit makes the owner of that UID the controller of an
// object like cached that has no owner.
func wouldControl[T informer.Object](cached informer.Object, edit func(T), uid types.UID) bool {
	blank, ok := cached.DeepCopyObject().(T)
	if !ok {
		return false
	}
	blank.SetOwnerReferences(nil)
	edit(blank)
	controller := metav1.GetControllerOfNoCopy(blank)
	return controller != nil && controller.UID == uid
}
