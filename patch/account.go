package patch

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/informer"
)

// account has the two fields of a Pod's spec that are one field for the server:
// serviceAccountName, and the deprecated serviceAccount, into which the server
// copies it. The server takes the second where the first is missing, so an edit
// that removes only the first would have no effect, and would be sent again in
// each call.
type account struct{ name, deprecated string }

// edited returns the account as an edit means it. before is the account before
// the edit, and a is the one after it. An edit that changes one of the fields
// means both.
func (a account) edited(before account) account {
	if before.name == "" || before.name != before.deprecated { // the server has copied nothing
		return a
	}
	if a.name == before.name && a.deprecated != "" {
		return account{a.deprecated, a.deprecated}
	}
	return account{a.name, a.name}
}

// editAccounts gives the Pod template of an edited built-in object the account
// that the edit means.
func editAccounts(cached, edited informer.Object) {
	untypedOld, isOld := cached.(*unstructured.Unstructured)
	untyped, isUntyped := edited.(*unstructured.Unstructured)
	switch {
	case isOld && isUntyped:
		if group := untyped.GroupVersionKind().Group; group == corev1.GroupName || group == appsv1.GroupName ||
			group == batchv1.GroupName {
			editUntyped(untypedOld.Object, untyped.Object)
		}
	default:
		before, after := podSpecOf(cached), podSpecOf(edited)
		if before == nil || after == nil {
			return
		}
		a := account{after.ServiceAccountName, after.DeprecatedServiceAccount}.
			edited(account{before.ServiceAccountName, before.DeprecatedServiceAccount})
		after.ServiceAccountName, after.DeprecatedServiceAccount = a.name, a.deprecated
	}
}

// podSpecOf returns the spec in the Pod template of a built-in object, or nil.
func podSpecOf(obj informer.Object) *corev1.PodSpec {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec
	case *batchv1.Job:
		return &o.Spec.Template.Spec
	case *corev1.PodTemplate:
		return &o.Template.Spec
	case *corev1.ReplicationController:
		if o.Spec.Template != nil {
			return &o.Spec.Template.Spec
		}
	}
	return nil
}

func editUntyped(cached, edited map[string]any) {
	before, after := untypedPodSpecOf(cached), untypedPodSpecOf(edited)
	if before == nil || after == nil {
		return
	}
	const name, deprecated = "serviceAccountName", "serviceAccount"
	accountOf := func(spec map[string]any) (a account) {
		a.name, _ = spec[name].(string)
		a.deprecated, _ = spec[deprecated].(string)
		return a
	}
	now := accountOf(after)
	for member, value := range map[string]string{
		name: now.edited(accountOf(before)).name, deprecated: now.edited(accountOf(before)).deprecated,
	} {
		if value == "" {
			delete(after, member)
		} else {
			after[member] = value
		}
	}
}

// untypedPodSpecOf is podSpecOf for an untyped object. The template of a CronJob
// is in its template of a Job.
func untypedPodSpecOf(m map[string]any) map[string]any {
	if template, ok := m["template"].(map[string]any); ok {
		spec, _ := template["spec"].(map[string]any)
		return spec
	}
	for _, name := range []string{"jobTemplate", "spec"} {
		if inner, ok := m[name].(map[string]any); ok {
			return untypedPodSpecOf(inner)
		}
	}
	return nil
}
