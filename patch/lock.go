package patch

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/diff"
)

var errNoVersion = errors.New("the object has no metadata.resourceVersion to lock on: read it from the server first")

// withPreconditions puts into the metadata of a merge patch what must still be so
// when the server applies it: the UID of cached, and its resourceVersion if locked.
// An object without UID, as fakes have them, can only be known by its name.
func withPreconditions(data []byte, cached informer.Object, locked bool) ([]byte, error) {
	members := make([]byte, 0, 96)
	if locked {
		if cached.GetResourceVersion() == "" {
			return nil, errNoVersion
		}
		members = appendMember(members, "resourceVersion", cached.GetResourceVersion())
	}
	if uid := string(cached.GetUID()); uid != "" {
		members = appendMember(members, "uid", uid)
	}
	if len(members) == 0 {
		return data, nil
	}
	return diff.WithMetadata(data, members), nil
}

// appendMember appends one member of a JSON object.
func appendMember(members []byte, name, value string) []byte {
	if len(members) > 0 {
		members = append(members, ',')
	}
	members = append(append(append(members, '"'), name...), `":`...)
	return diff.AppendString(members, value)
}

// deletePreconditions is what must still be so when the server deletes cached.
func deletePreconditions(cached informer.Object, locked bool) (*metav1.Preconditions, error) {
	var p metav1.Preconditions
	if uid := cached.GetUID(); uid != "" {
		p.UID = &uid
	}
	if locked {
		version := cached.GetResourceVersion()
		if version == "" {
			return nil, errNoVersion
		}
		p.ResourceVersion = &version
	}
	return &p, nil
}

// ignoresUID reports whether servers may overwrite the UID of such a request
// before they check it: then only the resourceVersion, which no recreated object
// has either, protects from writing to the wrong object.
func ignoresUID(obj informer.Object, subresource string) bool {
	if subresource == "" {
		return false
	}
	path := reflect.TypeOf(obj).Elem().PkgPath()
	_, isScale := obj.(*autoscalingv1.Scale) // perhaps of a custom kind
	return diff.StyleOf(obj) == diff.JSON || isScale || strings.HasPrefix(path, "k8s.io/api/flowcontrol/")
}

// changesSharedLists reports whether an edit changes the lists of the metadata to
// which other clients add.
func changesSharedLists(before, edited informer.Object) bool {
	return !slices.Equal(before.GetFinalizers(), edited.GetFinalizers()) ||
		!reflect.DeepEqual(before.GetOwnerReferences(), edited.GetOwnerReferences())
}

// lockIf is o with the lock, if it is needed and cached has a resourceVersion to
// lock on, which all objects of a real server have.
func (o *Options) lockIf(cached informer.Object, needed bool) Options {
	out := *o
	out.Lock = o.Lock || needed && cached.GetResourceVersion() != ""
	return out
}
