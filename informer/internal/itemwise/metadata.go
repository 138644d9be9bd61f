package itemwise

import (
	"encoding/json"
	"errors"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// metadataIn returns the metadata of an object. If they cannot be decoded as a
// whole, it returns only the name, the namespace, the resourceVersion, the UID,
// the labels and the owner references, as far as each of them can be decoded.
// It returns false if the name or the namespace cannot be decoded or the name
// is empty, because it is then unknown which object it is. A resourceVersion
// that is a number is returned as its digits.
func metadataIn(raw []byte) (metadata metav1.ObjectMeta, ok bool) {
	object, _ := rawMembers(raw)
	if unmarshalMember(object, "metadata", &metadata) == nil {
		return metadata, metadata.Name != ""
	}
	members, _ := rawMembers(object["metadata"])
	metadata = metav1.ObjectMeta{}
	err := errors.Join(
		unmarshalMember(members, "name", &metadata.Name),
		unmarshalMember(members, "namespace", &metadata.Namespace))
	var number json.Number
	if unmarshalMember(members, "resourceVersion", &metadata.ResourceVersion) != nil &&
		json.Unmarshal(members["resourceVersion"], &number) == nil {
		metadata.ResourceVersion = number.String()
	}
	_ = unmarshalMember(members, "uid", &metadata.UID)
	if unmarshalMember(members, "labels", &metadata.Labels) != nil {
		metadata.Labels = nil
	}
	if unmarshalMember(members, "ownerReferences", &metadata.OwnerReferences) != nil {
		metadata.OwnerReferences = nil
	}
	return metadata, err == nil && metadata.Name != ""
}

// withMetadata is the part of every object that MetadataFault decodes.
type withMetadata struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
}

// MetadataFault returns an error that names a member of the metadata that Go
// cannot decode, and nil if there is no such member. The methods of an untyped
// object return nothing for such a member. For example, an object whose
// deletionTimestamp is "soon" would look as if it were not being deleted. A
// fault in the managed fields alone is not reported, because nothing reads
// them.
func MetadataFault(u *unstructured.Unstructured) error {
	metadata, ok := u.Object["metadata"].(map[string]any)
	if ok && isSound(metadata) {
		return nil
	}
	raw, err := utiljson.Marshal(map[string]any{"metadata": u.Object["metadata"]})
	if err != nil {
		return err
	}
	if f := faultIn(reflect.TypeFor[withMetadata](), raw, ""); f != nil {
		return f
	}
	return nil
}

// isSound reports whether metadata certainly can be decoded. It is cheaper than
// decoding them. It does not look at managed fields, which nothing reads.
func isSound(metadata map[string]any) bool {
	for name, value := range metadata {
		if value == nil {
			continue
		}
		sound := true
		switch name {
		case "name", "namespace", "generateName", "uid", "resourceVersion", "selfLink":
			_, sound = value.(string)
		case "generation", "deletionGracePeriodSeconds":
			_, sound = value.(int64)
		case "creationTimestamp", "deletionTimestamp":
			text, isText := value.(string)
			_, err := time.Parse(time.RFC3339, text)
			sound = isText && err == nil
		case "labels", "annotations":
			members, isObject := value.(map[string]any)
			sound = isObject
			for _, member := range members {
				_, isText := member.(string)
				sound = sound && isText
			}
		case "finalizers":
			elements, isList := value.([]any)
			sound = isList
			for _, element := range elements {
				_, isText := element.(string)
				sound = sound && isText
			}
		case "ownerReferences":
			sound = areReferences(value)
		}
		if !sound {
			return false
		}
	}
	return true
}

// areReferences is like isSound, for the owner references.
func areReferences(value any) bool {
	references, ok := value.([]any)
	for _, reference := range references {
		members, isObject := reference.(map[string]any)
		ok = ok && isObject
		for name, member := range members {
			switch name {
			case "controller", "blockOwnerDeletion":
				_, isBool := member.(bool)
				ok = ok && (isBool || member == nil)
			default:
				_, isText := member.(string)
				ok = ok && isText
			}
		}
	}
	return ok
}

// WithoutFault returns object, or a stub in its place if object is untyped and
// its metadata cannot be decoded. Without a name or namespace that can be
// decoded there is no stub, and it returns object.
func WithoutFault[T Object](object T) T {
	u, ok := any(object).(*unstructured.Unstructured)
	if !ok || RefusalOf(object) != nil {
		return object
	}
	err := MetadataFault(u)
	if err == nil {
		return object
	}
	raw, marshalErr := utiljson.Marshal(map[string]any{"metadata": u.Object["metadata"]})
	metadata, known := metadataIn(raw)
	if marshalErr != nil || !known {
		return object // it is refused, since it has no name
	}
	stub, _ := Stub[T](metadata, &Refusal{CauseDecode, err})
	return stub
}
