package reconcile

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/ownwrites"
)

// The fields that a request asks to change are found in every form of request,
// and no other fields.
func TestAWriteAsksForWhatItsRequestChanges(t *testing.T) {
	cached := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "7", Labels: map[string]string{"l": "x"}},
			Spec: corev1.PodSpec{
				NodeName:   "n",
				Containers: []corev1.Container{{Name: "c", Image: "i", TerminationMessagePath: "/defaulted"}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	const (
		merge, apply, json = "application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"
		put                = "application/json"
	)
	for name, c := range map[string]struct {
		contentType, subresource, body string
		paths                          []string
	}{
		"a merge patch":  {merge, "", `{"metadata":{"uid":"1","resourceVersion":"7","labels":{"l":"y"}}}`, []string{"metadata.labels.l"}},
		"an empty field": {merge, "", `{"spec":{"securityContext":{}}}`, []string{"spec.securityContext"}},
		"what it has":    {merge, "", `{"metadata":{"labels":{"l":"x","m":null}},"spec":{"nodeName":"n"}}`, nil},
		"an apply": {
			apply, "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"m","containers":[{"name":"c","image":"i"}]}}`,
			[]string{"spec.nodeName"},
		},
		"an apply in YAML": {apply, "", "kind: Pod\nspec:\n  containers:\n  - name: c\n    image: j\n", []string{"spec.containers"}},
		"operations": {
			json, "", `[{"op":"test","path":"/metadata/uid","value":"1"},{"op":"replace","path":"/spec/containers/0/image","value":"j"},` +
				`{"op":"add","path":"/metadata/labels","value":{}}]`, []string{"metadata.labels", "spec.containers"},
		},
		"an update": {
			put, "", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"1","resourceVersion":"9","labels":{"l":"x"}},` +
				`"spec":{"nodeName":"m","containers":[{"name":"c","image":"i","terminationMessagePath":"/defaulted","resources":{}}]},` +
				`"status":{"phase":"Failed"}}`, []string{"spec.nodeName"},
		},
		"an update of nothing but the status": {
			put, "", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"1","labels":{"l":"x"}},` +
				`"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","terminationMessagePath":"/defaulted","resources":{}}]},` +
				`"status":{"phase":"Failed"}}`, []string{"status.phase"},
		},
		"an update of the status": {
			put, "status", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"1"},"spec":{},"status":{"phase":"Failed"}}`,
			[]string{"status.phase"},
		},
		"a subresource":    {merge, "scale", `{"spec":{"replicas":1}}`, []string{"scale"}},
		"no JSON, no YAML": {merge, "", "{\t", []string{wholeBody}},
		"too many":         {merge, "", `{"data":{` + many(40) + `}}`, []string{wholeBody}},
		"the whole metadata": {
			json, "", `[{"op":"add","path":"/metadata","value":{}}]`, []string{"metadata"},
		},
		"a body of no type": {put, "", "{", []string{wholeBody}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := write{object: cached(), cached: cached(), content: ownwrites.PatchOf(c.contentType, c.subresource, []byte(c.body))}
			if c.contentType == put {
				w.content.Method = "PUT"
			}
			g.Expect(w.asks(nil).paths()).To(Equal(c.paths))
		})
	}
}

// many returns n members of a JSON object.
func many(n int) string {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`"f%d":"x"`, i))
	}
	return strings.Join(members, ",")
}

// A deletion of an object that is being deleted asks for no change.
func TestADeletionIsAskedForOnce(t *testing.T) {
	g := NewWithT(t)
	w := write{object: written("1", ""), deleted: true}
	g.Expect(w.asks(nil).isWhole()).To(BeTrue())
	before := written("1", "")
	before.DeletionTimestamp = &metav1.Time{}
	w.cached = before
	g.Expect(w.asks(nil)).To(BeEmpty())
}

// inlined has a field in an embedded struct.
type inlined struct {
	metav1.ObjectMeta `json:"metadata"`
	Inner             `json:",inline"`

	Count int `json:"count,omitempty"`
}

// Inner is a part of inlined.
type Inner struct {
	Color string `json:"color,omitempty"`
}

// recoded writes its JSON itself.
type recoded struct {
	metav1.ObjectMeta `json:"metadata"`

	Color string `json:"color"`
}

func (r *recoded) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"color":"dark %s"}`, r.Color), nil
}

// The current values of an object are found without its whole JSON, wherever
// its type keeps them.
func TestAPatchIsComparedWithTheFieldsThatItChanges(t *testing.T) {
	object := &inlined{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"n": "x"}}, Inner: Inner{"red"}, Count: 0}
	for body, paths := range map[string][]string{
		`{"color":"red"}`:                        nil,
		`{"color":"blue"}`:                       {"color"},
		`{"count":null}`:                         nil,
		`{"count":1,"color":"red"}`:              {"count"},
		`{"metadata":{"annotations":{"n":"x"}}}`: nil,
		`{"unknown":1}`:                          {"unknown"},
	} {
		w := write{object: object, cached: object, content: ownwrites.PatchOf("application/merge-patch+json", "", []byte(body))}
		NewWithT(t).Expect(w.asks(nil).paths()).To(Equal(paths), body)
	}
}

// If there are more fields, one digest stands for all of them.
func TestTheFieldsOfAWriteAreBounded(t *testing.T) {
	for n, paths := range map[int]int{maxFields: maxFields, maxFields + 1: 1} {
		w := write{object: written("1", ""), content: ownwrites.PatchOf("application/merge-patch+json", "", []byte(`{"data":{`+many(n)+`}}`))}
		NewWithT(t).Expect(w.asks(nil)).To(HaveLen(paths))
	}
}

func TestATypeThatWritesItsJSONItselfIsAsked(t *testing.T) {
	object := &recoded{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Color: "red"}
	for color, paths := range map[string][]string{"dark red": nil, "red": {"color"}} {
		w := write{object: object, cached: object, content: ownwrites.PatchOf("application/merge-patch+json", "",
			fmt.Appendf(nil, `{"color":%q}`, color))}
		NewWithT(t).Expect(w.asks(nil).paths()).To(Equal(paths), color)
	}
}
