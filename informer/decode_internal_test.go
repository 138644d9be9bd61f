package informer

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestADecoderKnowsWhatIsNoObject(t *testing.T) {
	g := NewWithT(t)
	const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	d := newObjectDecoder[*corev1.Pod](corev1.SchemeGroupVersion)
	for _, decode := range []decoderFunc{d.decodeEvent, d.decodeList} {
		got, err := decode([]byte(expired))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(apierrors.FromObject(got)).To(MatchError(apierrors.IsResourceExpired, "IsResourceExpired"))
	}
	_, err := d.decodeList([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`))
	g.Expect(err).To(MatchError(`the server sent a "Pod", not a list`))
	pod, err := d.decodeEvent([]byte(`{"kind":"Pod","metadata":{"name":"Status"}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod).To(HaveField("Name", "Status"))
}

// Only what is wrong with an object is read again object by object.
func TestAWatchThatCannotBeReadIsNoUndecodableObject(t *testing.T) {
	g := NewWithT(t)
	for message, ends := range map[string]bool{
		`unable to decode watch event: json: cannot unmarshal string`:         true,
		`unable to decode an event from the watch stream: http2: server gone`: false,
	} {
		i := &itemwise{}
		status := &metav1.Status{Status: metav1.StatusFailure, Code: 500, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: clientWatchDecoding, Message: message}},
		}}
		g.Expect(i.endsUndecodable(watch.Event{Type: watch.Error, Object: status})).To(Equal(ends), message)
		g.Expect(i.isOn()).To(Equal(ends), message)
		g.Expect(i.endsUndecodable(watch.Event{Type: watch.Added, Object: status})).To(BeFalse())
	}
}
