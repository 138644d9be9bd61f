package informer

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
)

func stubAt(g *WithT, name string, uid types.UID, rv int) *corev1.ConfigMap {
	like := configMapAt(name, rv).ObjectMeta
	like.UID = uid
	stub, ok := stubOf[*corev1.ConfigMap](like, &refusal{causeDecode, errors.New("not this one")})
	g.Expect(ok).To(BeTrue())
	return stub
}

// Its deletion was no event: it has happened while the watch was down.
func TestAnUnreadableEventOfARecreatedObjectEndsTheOldOne(t *testing.T) {
	for uid, stays := range map[types.UID]bool{"1": true, "2": false, "": true} {
		g, d := filled(t)
		d.Put(itemOf(configMapAt("x", 3)))
		d.Put(itemOf(stubAt(g, "x", uid, 5)))
		g.Expect(content(d)).To(HaveLen(map[bool]int{true: 1, false: 0}[stays]), "UID %q", uid)
		g.Expect(d.store.unreadable.problems()).To(HaveLen(1))
	}
}

// The resourceVersion of a list may be before what the watch, or another list,
// has brought.
func TestAnOlderListEndsNoUnreadableState(t *testing.T) {
	for name, older := range map[string][]*corev1.ConfigMap{
		"with an earlier state": {configMapAt("x", 6)}, "from before the object": nil,
	} {
		t.Run(name, func(t *testing.T) {
			g, d := filled(t)
			g.Expect(d.fill(d.cover.Filling(), keyspace.Whole(), items(stubAt(g, "x", "1", 8)), "9")).To(Succeed())
			d.Replace("7", items(older...), versions.Relist, nil)
			g.Expect(d.store.unreadable.problems()).To(HaveLen(1))
			g.Expect(content(d)).To(BeEmpty())
			d.Replace("12", items(configMapAt("x", 10)), versions.Relist, nil)
			g.Expect(d.store.unreadable.problems()).To(BeEmpty())
			g.Expect(content(d)).To(Equal([]string{"x@10"}))
		})
	}
}

// What is cached of an unreadable object is not deleted by a list from before
// its unreadable state.
func TestAnOlderListDeletesNothingThatIsUnreadable(t *testing.T) {
	for name, older := range map[string]*corev1.ConfigMap{
		"with a state between": configMapAt("x", 6), "with the state that is cached": configMapAt("x", 3),
	} {
		t.Run(name, func(t *testing.T) {
			g, d := filled(t)
			d.Put(itemOf(configMapAt("x", 3)))
			g.Expect(d.fill(d.cover.Filling(), keyspace.Whole(), items(stubAt(g, "x", "1", 8)), "9")).To(Succeed())
			g.Expect(content(d)).To(Equal([]string{"x@3"}))
			d.Replace("7", items(older), versions.Relist, nil)
			g.Expect(content(d)).To(Equal([]string{"x@3"}))
			g.Expect(d.store.unreadable.problems()).To(HaveLen(1))
		})
	}
}

// ownJSON decodes itself, in another way than its fields say.
type ownJSON struct {
	N int `json:"n"`
	M int `json:"m"` // is not read
}

func (o *ownJSON) UnmarshalJSON(raw []byte) error {
	var s struct{ N any }
	if err := json.Unmarshal(raw, &s); err != nil || s.N == nil {
		return errors.New("no n")
	}
	return nil
}

// ownRoot decodes itself as its fields say.
type ownRoot struct {
	Own  ownJSON `json:"own"`
	More struct {
		M int `json:"m"`
	} `json:"more"`
}

func (o *ownRoot) UnmarshalJSON(raw []byte) error {
	type plain ownRoot
	return json.Unmarshal(raw, (*plain)(o))
}

func TestAFaultIsAsDeepAsTheTypesSay(t *testing.T) {
	for raw, want := range map[string]string{
		`{"own":{"n":"x"},"more":{"m":"y"}}`: "more.m: this string cannot be decoded as int",
		`{"own":{"o":"x"}}`:                  "own: this object cannot be decoded as informer.ownJSON",
		`{"own":{"n":null}}`:                 "own: this object cannot be decoded as informer.ownJSON",
		`{"own":{"m":"x"}}`:                  "own: this object cannot be decoded as informer.ownJSON",
		`[]`:                                 "this list cannot be decoded as informer.ownRoot",
	} {
		g := NewWithT(t)
		f := faultIn(reflect.TypeFor[ownRoot](), []byte(raw), "")
		g.Expect(f).To(MatchError(want), raw)
	}
}

// A list that could be read the second time was damaged on its way: the client
// goes on to send its own requests.
func TestOnlyAnUndecodableObjectTurnsReadingObjectByObjectOn(t *testing.T) {
	for name, c := range map[string]struct {
		items string
		err   error
		on    bool
	}{
		"damaged":     {`{"metadata":{"name":"a"}}`, errors.New("json: cannot unmarshal"), false},
		"undecodable": {`{"metadata":{"name":"a"},"spec":5}`, errors.New("json: cannot unmarshal"), true},
		"nested":      {`{"metadata":{"name":"a"}}`, errors.New("invalid character '[' exceeded max depth"), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", runtime.ContentTypeJSON)
				_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + c.items + `]}`))
			}))
			defer server.Close()
			at, err := url.Parse(server.URL)
			g.Expect(err).NotTo(HaveOccurred())
			i := &itemwise{resource: "pods"}
			i.lists.Store(true)
			i.watches.Store(true)
			i.client, err = rest.NewRESTClient(at, "", rest.ClientContentConfig{
				ContentType: runtime.ContentTypeJSON, GroupVersion: corev1.SchemeGroupVersion,
				Negotiator: newObjectDecoder[*corev1.Pod](corev1.SchemeGroupVersion),
			}, nil, server.Client())
			g.Expect(err).NotTo(HaveOccurred())
			of := i.reading(source{list: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, c.err }})
			list, err := of.list(t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list).To(HaveField("Items", HaveLen(1)))
			g.Expect(i.isOn()).To(Equal(c.on))
		})
	}
}
