// Package mark names an object's owner on the object, without an owner
// reference. Labels hold the owner's kind, name and UID, and an annotation
// holds what does not fit into labels. Package children writes the mark, and
// reconcile.Owned reads it.
package mark

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The labels are for selectors. UIDLabel decides which owner an object has.
// OwnerAnnotation has the owner's group, namespace and full name, from which
// the owner's key is made. OriginLabel names the cluster of the owner, if that
// is another than the object's. ChildAnnotation has the namespace and the name of
// the marked object itself: a copy of the object under another name has the
// labels and annotations of the original, and is recognised by it.
const (
	KindLabel       = "homeostat.dev/owner-kind"
	NameLabel       = "homeostat.dev/owner-name"
	UIDLabel        = "homeostat.dev/owner-uid"
	OriginLabel     = "homeostat.dev/owner-origin"
	OwnerAnnotation = "homeostat.dev/owner"
	ChildAnnotation = "homeostat.dev/child"
)

// Owner identifies the owner of an object. Its key is empty if the object has
// lost the annotation that contains the key, or if the annotation is damaged.
type Owner struct {
	schema.GroupKind
	types.NamespacedName
	UID types.UID
	// Origin names the cluster that has the owner. It is empty if that is the
	// cluster of the marked object.
	Origin string
}

// Of returns the owner that obj's mark names. It reports false if obj has no
// mark.
func Of(obj metav1.Object) (Owner, bool) {
	uid := obj.GetLabels()[UIDLabel]
	if uid == "" {
		return Owner{}, false
	}
	o := parse(obj.GetAnnotations()[OwnerAnnotation])
	o.Kind = cmp.Or(o.Kind, obj.GetLabels()[KindLabel])
	o.UID, o.Origin = types.UID(uid), obj.GetLabels()[OriginLabel]
	return o, true
}

// ID returns the value of the annotation. An owner that was recreated under the
// same name has the same ID.
func (o Owner) ID() string {
	id := o.GroupKind.String() + "/"
	if o.Namespace != "" {
		id += o.Namespace + "/"
	}
	return id + o.Name
}

func (o Owner) String() string {
	name := fmt.Sprintf("%s %q", o.Kind, o.NamespacedName)
	switch {
	case o.Name == "":
		name = o.Kind + " with UID " + string(o.UID)
	case o.Namespace == "":
		name = fmt.Sprintf("%s %q", o.Kind, o.Name)
	}
	if o.Origin != "" {
		name += fmt.Sprintf(" of %q", o.Origin)
	}
	return name
}

// IsCopied reports whether obj has the mark of another object. For example, a
// person or a tool has copied a child under another name. An object without
// ChildAnnotation is no copy, because older versions did not write it.
func IsCopied(obj metav1.Object) bool {
	child := obj.GetAnnotations()[ChildAnnotation]
	return child != "" && child != childID(obj)
}

// childID returns the value of ChildAnnotation for obj, such as "default/web".
func childID(obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

// Put writes the mark into obj.
func (o Owner) Put(obj metav1.Object) {
	labels, annotations := maps.Clone(obj.GetLabels()), maps.Clone(obj.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[KindLabel], labels[NameLabel], labels[UIDLabel] = o.Kind, short(o.Name), string(o.UID)
	labels[OriginLabel] = o.Origin
	if o.Origin == "" {
		delete(labels, OriginLabel)
	}
	annotations[OwnerAnnotation], annotations[ChildAnnotation] = o.ID(), childID(obj)
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
}

// Errors returns the reasons why the owner's kind and UID are not valid label
// values. Put does not shorten them, so the API server would refuse an object
// with an invalid kind or UID.
func (o Owner) Errors() []string {
	return append(validation.IsValidLabelValue(o.Kind), validation.IsValidLabelValue(string(o.UID))...)
}

// short returns name if it is a valid value of a label. Otherwise it returns
// the beginning of name and a hash of it. Names need this: a name may have 253
// characters, and the names of some kinds contain colons.
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

// parse returns the owner whose [Owner.ID] is id. If id does not have the form
// of an ID, the name of the result is empty.
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
