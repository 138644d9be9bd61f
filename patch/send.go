package patch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/diff"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

var errNoVersion = errors.New("the object has no metadata.resourceVersion to lock on: read it from the server first")

// send sends a patch with its preconditions. If the server cannot apply an
// operation of a JSON patch, send tries the fallbacks of the patch, one after
// the other. It reports the write to the reconcile of ctx, unless it was a dry
// run. It does not wrap errors; its callers do.
func send[C Client[T], T informer.Object](ctx context.Context, c C, cached T, p diff.Patch, o Options) (T, error) {
	var zero T
	answer, err := sendOne(ctx, c, cached, p, o)
	for i := 0; refused(p, err) && i < len(p.Fallbacks); i++ {
		p.Data = p.Fallbacks[i]
		answer, err = sendOne(ctx, c, cached, p, o)
	}
	switch {
	case refused(p, err):
		return zero, explainRefusal(ctx, c, cached, p, err)
	case o.Subresource != "" && apierrors.IsNotFound(err): //nolint:forbidigo // proves nothing: the object is read
		return zero, explainNotFound(ctx, c, cached, o.Subresource, err)
	case err != nil:
		return zero, err
	}
	if err := checkAnswer(cached, answer); err != nil {
		return zero, err
	}
	if !o.DryRun {
		ownwrites.WroteAs(ctx, answer, ownwrites.PatchOf(string(typeOf(p)), o.Subresource, p.Data))
	}
	return answer, nil
}

// sendOne sends a patch in a single request, with its preconditions.
func sendOne[C Client[T], T informer.Object](ctx context.Context, c C, cached T, p diff.Patch, o Options) (T, error) {
	var zero T
	data, err := withPreconditions(p, cached, o.Lock)
	if err != nil {
		return zero, err
	}
	if len(data) > maxBytes {
		return zero, fmt.Errorf("the patch has %d bytes, but a server reads at most %d: make the object smaller",
			len(data), maxBytes)
	}
	var subresources []string
	if o.Subresource != "" {
		subresources = []string{o.Subresource}
	}
	opts := metav1.PatchOptions{FieldManager: o.FieldManager, DryRun: o.dryRun()}
	return c.Patch(ctx, cached.GetName(), typeOf(p), data, opts, subresources...)
}

func typeOf(p diff.Patch) types.PatchType {
	switch p.Style {
	case diff.Strategic:
		return types.StrategicMergePatchType
	case diff.Operations:
		return types.JSONPatchType
	default:
		return types.MergePatchType
	}
}

// notApplied is the beginning of a server's message about a patch that it could
// not apply.
const notApplied = "the server rejected our request due to an error in our request"

// refused reports whether an operation of a JSON patch could not be applied.
// API servers answer with 422, the message notApplied and no causes. A webhook
// may refuse the write with the same code, and with a message of its own. Fakes
// return the error of their library.
func refused(p diff.Patch, err error) bool {
	if err == nil || p.Style != diff.Operations {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		answer := status.Status()
		return apierrors.IsInvalid(err) && (answer.Details == nil || len(answer.Details.Causes) == 0) &&
			strings.HasPrefix(answer.Message, notApplied)
	}
	return strings.HasSuffix(err.Error(), "test failed") || strings.HasSuffix(err.Error(), "missing value") ||
		strings.HasSuffix(err.Error(), "invalid index referenced")
}

// explainRefusal finds out why a JSON patch was refused: because the object has
// changed since it was read, or because it has fields that the cached one does
// not show, or values in another form. It reads the object if the client has a
// method Get.
func explainRefusal[C Client[T], T informer.Object](
	ctx context.Context, c C, cached T, p diff.Patch, refusal error,
) error {
	live, err := get(ctx, c, cached)
	switch {
	case errors.Is(err, errCannotRead):
	case err != nil:
		return errors.Join(refusal, fmt.Errorf("reading the object: %w", err))
	case live.GetUID() != cached.GetUID() || live.GetResourceVersion() != cached.GetResourceVersion():
		return apierrors.NewConflict(schema.GroupResource{Resource: kindOf(cached)}, cached.GetName(),
			fmt.Errorf("the object was changed since it was read: %w", refusal))
	}
	return fmt.Errorf("the server has fields in %s that the Go type lacks or a Transform removes, or values that the "+
		"type writes in another form, such as 60s as 1m0s, and the edit could lose them: add the missing fields to the "+
		"type, write the values as it does, or edit fewer elements at once: %w",
		strings.Join(p.Fields, ", "), refusal)
}

// errCannotRead means that a client has no method Get.
var errCannotRead = errors.New("the client has no method Get")

// get reads an object from the server. cached is the object in the cache. get
// returns errCannotRead if the client has no method Get, and an error if the
// answer cannot be about this object.
func get[T informer.Object](ctx context.Context, c any, cached T) (object T, err error) {
	switch c := c.(type) {
	case getter[T]:
		object, err = c.Get(ctx, cached.GetName(), metav1.GetOptions{})
	case untypedGetter[T]:
		object, err = c.Get(ctx, cached.GetName(), metav1.GetOptions{})
	default:
		return object, errCannotRead
	}
	if err == nil {
		err = absent.Answer(object, cached)
	}
	return object, err
}

// explainNotFound finds out why a write of a subresource was not found: because
// the kind does not have the subresource, or because the object is deleted.
// Servers give the same answer in both cases, so explainNotFound reads the
// object if the client has a method Get. Its result proves that the object does
// not exist only if the answer to that read proves it.
func explainNotFound[C Client[T], T informer.Object](
	ctx context.Context, c C, cached T, subresource string, notFound error,
) error {
	got, err := get(ctx, c, cached)
	switch {
	case errors.Is(err, errCannotRead), absent.From(c, err, cached):
		return notFound
	case err != nil:
		return fmt.Errorf("reading the object, after the server answered %q: %w", notFound.Error(), err)
	case got.GetUID() != cached.GetUID():
		return notFound
	}
	return fmt.Errorf("the kind has no subresource %q: add it to the CustomResourceDefinition, or edit the object itself",
		subresource) // not wrapping notFound: the object exists
}

// withPreconditions adds preconditions on the metadata to a patch: the UID of
// the cached object and, if locked is true, its resourceVersion. An object
// without a UID, as fakes may return it, is identified by its name alone.
func withPreconditions(p diff.Patch, cached informer.Object, locked bool) ([]byte, error) {
	if locked && cached.GetResourceVersion() == "" {
		return nil, errNoVersion
	}
	if p.Style == diff.Operations {
		return diff.WithOperations(p.Data, conditions(cached, locked)...), nil
	}
	members := make([]byte, 0, 96)
	if locked {
		members = appendMember(members, "resourceVersion", cached.GetResourceVersion())
	}
	if uid := string(cached.GetUID()); uid != "" {
		members = appendMember(members, "uid", uid)
	}
	if len(members) == 0 {
		return p.Data, nil
	}
	return diff.WithMetadata(p.Data, members), nil
}

// conditions returns the preconditions as names and values in turn. For
// example, it returns "uid" and the UID.
func conditions(cached informer.Object, locked bool) []string {
	var members []string
	if locked {
		members = append(members, "resourceVersion", cached.GetResourceVersion())
	}
	if uid := string(cached.GetUID()); uid != "" {
		members = append(members, "uid", uid)
	}
	return members
}

// appendMember appends a string member to the members of a JSON object, and
// returns the result. members is the object's JSON without its braces.
func appendMember(members []byte, name, value string) []byte {
	if len(members) > 0 {
		members = append(members, ',')
	}
	members = append(append(append(members, '"'), name...), `":`...)
	return diff.AppendString(members, value)
}

// ignoresUID reports whether servers may ignore the UID in a request to the
// subresource. Only the resourceVersion then prevents a write to a recreated
// object, because a recreated object never has the old resourceVersion.
func ignoresUID(obj informer.Object, subresource string) bool {
	if subresource == "" {
		return false
	}
	path := reflect.TypeOf(obj).Elem().PkgPath()
	_, isScale := obj.(*autoscalingv1.Scale) // it may be the scale of a custom kind
	return diff.StyleOf(obj) == diff.JSON || isScale || strings.HasPrefix(path, "k8s.io/api/flowcontrol/")
}

// checkAnswer refuses the answer to a write of want unless it is the API
// server's answer about that object. Fields that want does not have, as with
// objects of fakes, are not compared. An API server's answer has a namespace
// and a UID, but the answer of a gateway may have the right name alone.
func checkAnswer(want, got informer.Object) error {
	if bound.IsNil(got) || got.GetName() == "" {
		return absent.Answer(got, want)
	}
	differs := func(a, b string) bool { return a != "" && b != "" && a != b }
	switch {
	case got.GetName() != want.GetName() || differs(want.GetNamespace(), got.GetNamespace()) ||
		differs(string(want.GetUID()), string(got.GetUID())):
		return fmt.Errorf("the client wrote %q with UID %q instead of %q with UID %q: "+
			"it is for another namespace or kind", bound.KeyOf(got), got.GetUID(), bound.KeyOf(want), want.GetUID())
	case want.GetUID() != "" && got.GetUID() == "":
		return absent.Answer(got, want)
	default:
		return nil
	}
}
