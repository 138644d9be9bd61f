package fleet

import (
	"encoding/json"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// keysAnnotation holds the keys that the owner of a slot has left, as a JSON
// list of namespace/name. In the record of the ranges, it holds the keys that
// were left with the slots of earlier ranges.
const keysAnnotation = "leader.homeostat.dev/keys"

// Room is the largest number of keys in a record, and their largest total size.
type Room struct{ keys, bytes int }

// LeftRoom bounds the keys left with one slot. AllRoom bounds the keys left
// with all slots of earlier ranges. They are recorded with the new ranges.
var (
	LeftRoom = Room{100, 16 << 10}
	AllRoom  = Room{400, 64 << 10}
)

// KeysOf returns the keys in the record of a slot. The record may be nil.
func KeysOf(lease *coordinationv1.Lease) (keys []types.NamespacedName) {
	var texts []string
	_ = json.Unmarshal([]byte(Annotation(lease, keysAnnotation)), &texts) // another client may have edited it
	for _, text := range texts {
		if namespace, name, ok := strings.Cut(text, "/"); ok {
			keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return keys
}

// Keep writes keys into a record that is about to be written, and returns how
// many of them do not fit.
func Keep(lease *coordinationv1.Lease, keys []types.NamespacedName, room Room) (cut int) {
	var texts []string
	size := 0
	for _, key := range keys {
		text := key.String()
		if size += len(text) + len(`"",`); len(texts) == room.keys || size > room.bytes {
			break
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		delete(lease.Annotations, keysAnnotation)
		return len(keys)
	}
	text, _ := json.Marshal(texts) // cannot fail for strings
	Annotate(lease, keysAnnotation, string(text))
	return len(keys) - len(texts)
}

// Annotation returns an annotation of a record, or "" if the record is nil or
// has no such annotation.
func Annotation(lease *coordinationv1.Lease, name string) string {
	if lease == nil {
		return ""
	}
	return lease.Annotations[name]
}

// Annotate sets an annotation of a record.
func Annotate(lease *coordinationv1.Lease, name, text string) {
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[name] = text
}
