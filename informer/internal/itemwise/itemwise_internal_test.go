package itemwise

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
	"k8s.io/client-go/rest"
)

// ownJSON has its own UnmarshalJSON, which reads other members than its fields
// say.
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

// ownRoot has its own UnmarshalJSON, which reads the members that its fields
// say.
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
		`{"own":{"o":"x"}}`:                  "own: this object cannot be decoded as itemwise.ownJSON",
		`{"own":{"n":null}}`:                 "own: this object cannot be decoded as itemwise.ownJSON",
		`{"own":{"m":"x"}}`:                  "own: this object cannot be decoded as itemwise.ownJSON",
		`[]`:                                 "this list cannot be decoded as itemwise.ownRoot",
	} {
		g := NewWithT(t)
		f := faultIn(reflect.TypeFor[ownRoot](), []byte(raw), "")
		g.Expect(f).To(MatchError(want), raw)
	}
}

// failing is a client whose lists fail.
type failing struct {
	Requests
	err error
}

func (f failing) List(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, f.err }

// If a list can be decoded when it is requested again, the first answer was
// damaged on the way. The client then continues to send its own requests.
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
			i := &sender{resource: "pods"}
			i.lists.Store(true)
			i.watches.Store(true)
			i.client, err = rest.NewRESTClient(at, "", rest.ClientContentConfig{
				ContentType: runtime.ContentTypeJSON, GroupVersion: corev1.SchemeGroupVersion,
				Negotiator: newObjectDecoder[*corev1.Pod](corev1.SchemeGroupVersion, ""),
			}, nil, server.Client())
			g.Expect(err).NotTo(HaveOccurred())
			list, err := (&Reader{client: failing{err: c.err}, sender: i}).List(t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list).To(HaveField("Items", HaveLen(1)))
			g.Expect(i.isOn()).To(Equal(c.on))
		})
	}
}
