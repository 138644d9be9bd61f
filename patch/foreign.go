package patch

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/suspect"
)

// ErrForeign means that an object was not written because it does not belong to
// the program. The error is a [ForeignError] with the names of the object and
// of its owner.
var ErrForeign = errors.New("the object does not belong to the program")

// ForeignError is the refusal to write an object that belongs to another owner,
// or that has no owner. It satisfies errors.Is(err, [ErrForeign]). For example,
// report it in a condition:
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
	// Owner is the owner's kind and name, such as `Certificate "shop"`. It is
	// empty if the object has no owner.
	Owner string
	// Reason explains why the object was not written, and what can be done
	// about it.
	Reason string
}

// Error returns the reason, with the object.
func (e *ForeignError) Error() string { return fmt.Sprintf("%s %q: %s", e.Kind, e.Key, e.Reason) }

// Is reports whether target is [ErrForeign].
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// checkController returns a check that refuses the edit of an object with a
// controller, unless the edit names that controller itself or o allows
// adoption.
func checkController[T informer.Object](o *Options, edit func(T)) func(cached, edited informer.Object) error {
	return func(cached, edited informer.Object) error {
		controller := metav1.GetControllerOfNoCopy(cached)
		if controller == nil || o != nil && o.Adopt {
			return nil
		}
		foreign := &ForeignError{Kind: kindOf(cached), Key: bound.KeyOf(cached)}
		foreign.Owner = fmt.Sprintf("%s %q", controller.Kind, controller.Name)
		for _, ref := range edited.GetOwnerReferences() {
			if ref.Controller != nil && *ref.Controller && ref.UID != controller.UID {
				foreign.Reason = fmt.Sprintf("%s %q with UID %q controls it, so %s %q with UID %q cannot adopt it: "+
					"choose another name", controller.Kind, controller.Name, controller.UID, ref.Kind, ref.Name, ref.UID)
				return foreign
			}
		}
		if wouldControl(cached, edit, controller.UID) {
			return nil
		}
		foreign.Reason = fmt.Sprintf("%s %q with UID %q controls it, and the edit does not name it as the controller: "+
			"choose another name, patch it with patch.Merge, or set patch.Options.Adopt",
			controller.Kind, controller.Name, controller.UID)
		return foreign
	}
}

// checkCreated compares sent, the object in the request for a creation, with
// got, the object in the answer. It returns an error if their controllers
// differ. Then the answer may be about another object, for example because a
// proxy has read an object in place of the creation, or a webhook may have
// changed the owner.
func checkCreated(sent, got informer.Object) error {
	controller, sentController := metav1.GetControllerOfNoCopy(got), metav1.GetControllerOfNoCopy(sent)
	if controller == nil && sentController == nil ||
		controller != nil && sentController != nil && controller.UID == sentController.UID {
		return nil
	}
	foreign := &ForeignError{Kind: kindOf(sent), Key: bound.KeyOf(got)}
	if controller == nil {
		foreign.Reason = "the answer to its creation says that it has no controller: " +
			suspect.Guess + ", or a webhook has removed the owner"
		return foreign
	}
	foreign.Owner = fmt.Sprintf("%s %q", controller.Kind, controller.Name)
	foreign.Reason = fmt.Sprintf("the answer to its creation says that %s controls it: "+
		"%s, or a webhook has set the owner", foreign.Owner, suspect.Guess)
	return foreign
}

// wouldControl reports whether edit makes the owner with this UID the
// controller. It tries the edit on a copy of the cached object without owner
// references.
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
