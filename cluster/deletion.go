package cluster

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/answer"
)

// deletion returns why res cannot be the answer to the deletion r, or "" if it
// can be. For example, a cache may have sent the answer to another deletion, or
// to a read. It also returns what the answer proves about the deletion.
func (r *request) deletion(req *http.Request, res *http.Response) (reason string, shown answer.Deletion) {
	object := read(res)
	if object == nil {
		return "", shown
	}
	uid, dry := types.UID(""), r.isDryRun(req)
	if p := r.preconditions(req); p != nil && p.UID != nil {
		uid = *p.UID
	}
	if object.Status != nil {
		return r.mixedUp(object.Status.Details, uid), answer.Deletion{Proven: object.Status.Status == metav1.StatusSuccess}
	}
	differs := func(got, want string) bool { return got != "" && want != "" && got != want }
	switch {
	case differs(object.Name, r.Name):
		reason = fmt.Sprintf("it is about the name %q, not %q", object.Name, r.Name)
	case differs(object.Namespace, r.Namespace):
		reason = fmt.Sprintf("it is about the namespace %q, not %q", object.Namespace, r.Namespace)
	case differs(string(object.UID), string(uid)):
		reason = fmt.Sprintf("it is about the UID %q, not %q", object.UID, uid)
	case r.isOtherKind(object):
		reason = fmt.Sprintf("it is about the kind %q of %q, not the resource %q", object.Kind, object.APIVersion, r.Resource)
	case object.DeletionTimestamp == nil && len(object.Finalizers) > 0 && !dry:
		reason = fmt.Sprintf("the object still exists: it has the finalizers %q and no deletionTimestamp", object.Finalizers)
	}
	return reason, answer.Deletion{Proven: object.DeletionTimestamp != nil, Version: object.ResourceVersion}
}

// mixedUp returns why a Status with these details cannot be about the object
// that r deletes, or "" if it can be. uid is the UID that the deletion
// requires, or "". Servers set the field kind of the details to the resource,
// such as "pods", or to the kind, such as "Pod". Only a resource can be
// compared, because the URL of a request does not name the kind.
func (r *request) mixedUp(details *metav1.StatusDetails, uid types.UID) string {
	switch {
	case details == nil:
	case details.Name != "" && details.Name != r.Name:
		return fmt.Sprintf("it is about the name %q, not %q", details.Name, r.Name)
	case details.UID != "" && uid != "" && details.UID != uid:
		return fmt.Sprintf("it is about the UID %q, not %q", details.UID, uid)
	case details.Kind == strings.ToLower(details.Kind) && details.Kind != "" && details.Kind != r.Resource.Resource:
		return fmt.Sprintf("it is about the resource %q, not %q", details.Kind, r.Resource.Resource)
	}
	return ""
}

// isOtherKind reports whether object cannot belong to the resource of r. It
// compares the groups. In a group without a dot, such as "apps", it also
// compares the resource with the usual plural of the kind. In other groups, a
// CustomResourceDefinition may have chosen the plural. isOtherKind returns
// false for an object without a kind, and for a kind of the group meta.k8s.io,
// such as PartialObjectMetadata, because any resource may be answered with it.
func (r *request) isOtherKind(object *answer.Object) bool {
	kind := object.GroupVersionKind()
	if kind.Kind == "" || kind.Group == metav1.GroupName {
		return false
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return kind.Group != r.Resource.Group || !strings.Contains(kind.Group, ".") && plural.Resource != r.Resource.Resource
}

// preconditions returns the preconditions in the body of a deletion, or nil.
func (r *request) preconditions(req *http.Request) *metav1.Preconditions {
	var options metav1.DeleteOptions
	if body := sent(req); body != nil && body.Into(&options) == nil {
		return options.Preconditions
	}
	return nil
}

// contradiction returns why the answer to a request that has failed cannot be
// an API server's, or "" if it can be. In an answer of an API server, the code
// in the body equals the HTTP status. client-go looks only at the code in the
// body. Without this check, a gateway that cannot reach the server could answer
// with the HTTP status 502 and a body with the code 404, and the object would
// seem not to exist.
func contradiction(res *http.Response) string {
	object := read(res)
	if object == nil || object.Status == nil || object.Status.Code == 0 || int(object.Status.Code) == res.StatusCode {
		return ""
	}
	return fmt.Sprintf("its body has the status %d", object.Status.Code)
}
