// Package mark is how an object says whose it is without an owner reference: by labels
// with its owner's kind, name and UID, and an annotation with all that does not fit into
// a label. Package children writes it, and reconcile.Owned reads it.
package mark

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The labels are for selectors, and UIDLabel decides whose an object is. OwnerAnnotation
// has group, namespace and the whole name, from which the owner's key is made.
const (
	KindLabel       = "homeostat.dev/owner-kind"
	NameLabel       = "homeostat.dev/owner-name"
	UIDLabel        = "homeostat.dev/owner-uid"
	OwnerAnnotation = "homeostat.dev/owner"
)

// Owner is whose an object is. Its key is empty if the object has lost the annotation.
type Owner struct {
	schema.GroupKind
	types.NamespacedName
	UID types.UID
}

// Of returns whose obj is by its mark, if it has one.
func Of(obj metav1.Object) (Owner, bool) {
	uid := obj.GetLabels()[UIDLabel]
	if uid == "" {
		return Owner{}, false
	}
	o := parse(obj.GetAnnotations()[OwnerAnnotation])
	o.Kind = cmp.Or(o.Kind, obj.GetLabels()[KindLabel])
	o.UID = types.UID(uid)
	return o, true
}

// ID is the value of the annotation. All owners of one name have it, also those that
// were deleted before this one was created.
func (o Owner) ID() string {
	id := o.GroupKind.String() + "/"
	if o.Namespace != "" {
		id += o.Namespace + "/"
	}
	return id + o.Name
}

func (o Owner) String() string {
	if o.Name == "" {
		return o.Kind + " with UID " + string(o.UID)
	}
	if o.Namespace == "" {
		return o.Kind + " \"" + o.Name + "\""
	}
	return o.Kind + " \"" + o.NamespacedName.String() + "\""
}

// Put marks obj.
func (o Owner) Put(obj metav1.Object) {
	labels, annotations := maps.Clone(obj.GetLabels()), maps.Clone(obj.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[KindLabel], labels[NameLabel], labels[UIDLabel] = o.Kind, short(o.Name), string(o.UID)
	annotations[OwnerAnnotation] = o.ID()
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
}

// Errors returns why the owner cannot be in labels: its kind and UID must fit as they are.
func (o Owner) Errors() []string {
	return append(validation.IsValidLabelValue(o.Kind), validation.IsValidLabelValue(string(o.UID))...)
}

// short returns name if it can be a label's value, and otherwise its beginning with a
// hash of the whole: a name may have 253 characters, and some kinds allow colons.
func short(name string) string {
	if len(validation.IsValidLabelValue(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	valid := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}
	begin := strings.Trim(strings.Map(valid, name[:min(len(name), 52)]), "-")
	return strings.TrimLeft(begin+"-"+hex.EncodeToString(sum[:5]), "-")
}

// parse reads an ID. What is none is an owner without a name.
func parse(id string) Owner {
	parts := strings.Split(id, "/")
	if len(parts) != 2 && len(parts) != 3 || parts[0] == "" || parts[len(parts)-1] == "" {
		return Owner{}
	}
	o := Owner{GroupKind: schema.ParseGroupKind(parts[0])}
	if o.Kind == "" {
		return Owner{}
	}
	o.Name = parts[len(parts)-1]
	if len(parts) == 3 {
		o.Namespace = parts[1]
	}
	return o
}
