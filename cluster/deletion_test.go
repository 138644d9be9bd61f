package cluster_test

import (
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
)

// For example, a cache between the program and the server has mixed up two
// answers, or has answered a read.
func TestOnlyTheDeletionOfTheObjectIsItsDeletion(t *testing.T) {
	status := func(d metav1.StatusDetails) runtime.Object {
		return &metav1.Status{Status: metav1.StatusSuccess, Details: &d}
	}
	dying := func(edit func(*metav1.ObjectMeta)) runtime.Object {
		now := metav1.Now()
		m := metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "u", ResourceVersion: "3", DeletionTimestamp: &now}
		edit(&m)
		return &corev1.Pod{ObjectMeta: m}
	}
	fails := func(text string) OmegaMatcher { return MatchError(ContainSubstring(text)) }
	for name, c := range map[string]struct {
		answer runtime.Object
		want   OmegaMatcher
	}{
		"success":                     {status(metav1.StatusDetails{Name: "a", Kind: "pods", UID: "u"}), Succeed()},
		"success by the kind":         {status(metav1.StatusDetails{Name: "a", Kind: "Pod"}), Succeed()},
		"success without details":     {&metav1.Status{Status: metav1.StatusSuccess}, Succeed()},
		"success of another name":     {status(metav1.StatusDetails{Name: "b"}), fails(`about the name "b"`)},
		"success of another UID":      {status(metav1.StatusDetails{Name: "a", UID: "other"}), fails(`about the UID "other"`)},
		"success of another resource": {status(metav1.StatusDetails{Name: "a", Kind: "services"}), fails(`the resource "services"`)},
		"being deleted":               {dying(func(*metav1.ObjectMeta) {}), Succeed()},
		"another name":                {dying(func(m *metav1.ObjectMeta) { m.Name = "b" }), fails(`about the name "b"`)},
		"another namespace":           {dying(func(m *metav1.ObjectMeta) { m.Namespace = "e" }), fails(`about the namespace "e"`)},
		"another UID":                 {dying(func(m *metav1.ObjectMeta) { m.UID = "other" }), fails(`about the UID "other"`)},
		"another kind": {
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "u"}}, fails(`about the kind "Service"`),
		},
		"as it was, by the version of the deletion": {dying(func(m *metav1.ObjectMeta) { m.DeletionTimestamp = nil }), Succeed()},
		"a living object": {
			dying(func(m *metav1.ObjectMeta) { m.DeletionTimestamp, m.ResourceVersion = nil, "2" }), fails("still exists"),
		},
		"a living object with a finalizer": {
			dying(func(m *metav1.ObjectMeta) { m.DeletionTimestamp, m.Finalizers = nil, []string{"example.com/f"} }),
			fails("still exists"),
		},
	} {
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			t.Run(name+", "+contentType, func(t *testing.T) {
				g := NewWithT(t)
				object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "u", ResourceVersion: "2"}}
				pods := answering(g, http.StatusOK, contentType, encoded(g, contentType, c.answer)).CoreV1().Pods
				g.Expect(patch.Delete(t.Context(), pods, object, nil)).To(c.want)
			})
		}
	}
}

// client-go returns the code in the body alone. A gateway that cannot reach the
// server, or that answers everything with status 200, proves nothing.
func TestAnAnswerWhoseBodyHasAnotherCodeIsAnError(t *testing.T) {
	const body = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" not found",` +
		`"reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404}`
	for _, code := range []int{200, 401, 403, 409, 410, 500, 502, 504} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			g := NewWithT(t)
			pods := answering(g, code, runtime.ContentTypeJSON, body).CoreV1().Pods
			object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "u"}}
			g.Expect(patch.Delete(t.Context(), pods, object, nil)).To(MatchError(ContainSubstring("is not from the API server")))
			_, live, err := names.Live(t.Context(), pods("d"), "a")
			g.Expect(err).To(MatchError(ContainSubstring("is not from the API server")))
			g.Expect(live).To(BeFalse())
		})
	}
	g := NewWithT(t)
	_, live, err := names.Live(t.Context(), answering(g, http.StatusNotFound, runtime.ContentTypeJSON, body).CoreV1().Pods("d"), "a")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live).To(BeFalse())
}
