package patch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/diff"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

var errNoVersion = errors.New("the object has no metadata.resourceVersion to lock on: read it from the server first")

// send sends a patch with its conditions, and reports the write to the reconcile of
// ctx unless it was a dry run. The caller describes its errors.
func send[C Client[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, p diff.Patch, o Options,
) (T, error) {
	var none T
	data, err := withPreconditions(p.Data, cached, o.Lock)
	if err != nil {
		return none, err
	}
	if len(data) > maxBytes {
		return none, fmt.Errorf("the patch has %d bytes, a server reads at most %d: make the object smaller",
			len(data), maxBytes)
	}
	c, err := bound.ClientFor(of, cached)
	if err != nil {
		return none, err
	}
	pt := types.MergePatchType
	if p.Style == diff.Strategic {
		pt = types.StrategicMergePatchType
	}
	var subresources []string
	if o.Subresource != "" {
		subresources = []string{o.Subresource}
	}
	opts := metav1.PatchOptions{FieldManager: o.FieldManager, DryRun: o.dryRun()}
	answer, err := c.Patch(ctx, cached.GetName(), pt, data, opts, subresources...)
	if o.Subresource != "" && apierrors.IsNotFound(err) { //nolint:forbidigo // proves nothing: the object is read
		err = explainNotFound(ctx, c, cached, o.Subresource, err)
	}
	if err != nil {
		return none, err
	}
	if err := checkAnswer(cached, answer); err != nil {
		return none, err
	}
	if !o.DryRun {
		ownwrites.Wrote(ctx, answer)
	}
	return answer, nil
}

// explainNotFound tells a kind without the subresource from a deleted object, for
// which servers answer the same: it reads the object, if the client can. The result
// proves that the object does not exist only if the read has proven it.
func explainNotFound[C Client[T], T informer.Object](
	ctx context.Context, c C, cached T, subresource string, notFound error,
) error {
	var got T
	var err error
	switch c := any(c).(type) {
	case getter[T]:
		got, err = c.Get(ctx, cached.GetName(), metav1.GetOptions{})
	case untypedGetter[T]:
		got, err = c.Get(ctx, cached.GetName(), metav1.GetOptions{})
	default:
		return notFound
	}
	switch {
	case absent.Object(err, cached):
		return notFound
	case err != nil:
		return fmt.Errorf("reading the object after the answer %q: %w", notFound, err)
	case bound.IsNil(got) || got.GetUID() != cached.GetUID():
		return notFound
	}
	return fmt.Errorf("its kind has no subresource %q: add it to the CustomResourceDefinition, or edit the object itself",
		subresource) // not wrapping notFound: the object exists
}

// withPreconditions adds preconditions to the metadata of a merge patch: the UID of
// cached, and its resourceVersion if locked. An object without a UID, as in fakes, is
// identified by its name alone.
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

// checkAnswer refuses the answer to a write of want that is about another object.
// Fields that fakes leave empty are not compared.
func checkAnswer(want, got informer.Object) error {
	if bound.IsNil(got) {
		return errors.New("the client has returned neither an object nor an error")
	}
	differs := func(a, b string) bool { return a != "" && b != "" && a != b }
	if !differs(want.GetName(), got.GetName()) && !differs(want.GetNamespace(), got.GetNamespace()) &&
		!differs(string(want.GetUID()), string(got.GetUID())) {
		return nil
	}
	return fmt.Errorf("the client has written %q with UID %q instead of %q with UID %q: "+
		"it is of another namespace or kind", bound.KeyOf(got), got.GetUID(), bound.KeyOf(want), want.GetUID())
}
