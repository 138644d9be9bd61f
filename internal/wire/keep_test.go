package wire_test

import (
	"fmt"
	"io"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/wire"
	"github.com/homeostat/homeostat/internal/wire/wiretest"
)

// ofA wants the objects in namespace a.
func ofA(namespace []byte) bool { return string(namespace) == "a" }

var onlyA = wire.Wanted(ofA) //nolint:gochecknoglobals // a constant

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "1", ResourceVersion: "5"},
		Data:       map[string]string{"key": name},
	}
}

func TestAWatchLeavesOutWhatIsNotWanted(t *testing.T) {
	g := NewWithT(t)
	sent := protobuf(
		watch.Event{Type: watch.Added, Object: configMap("a", "1")},
		watch.Event{Type: watch.Added, Object: configMap("b", "2")},
		watch.Event{Type: watch.Modified, Object: configMap("b", "3")},
		watch.Event{Type: watch.Modified, Object: configMap("a", "4")},
		watch.Event{Type: watch.Deleted, Object: configMap("b", "5")},
		watch.Event{Type: watch.Deleted, Object: configMap("a", "6")},
		watch.Event{Type: watch.Bookmark, Object: configMap("", "")},
		watch.Event{Type: watch.Added, Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "7"}}},
		watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "gone"}},
		watch.Event{Type: watch.Added, Object: configMap("b", "8")},
	)
	wants := func(namespace []byte) bool { return len(namespace) == 0 || ofA(namespace) }
	decoder := theirs(runtime.ContentTypeProtobuf, wire.Filtered(reader(sent), wire.Wanted(wants)))
	defer decoder.Close()
	var got []string
	for {
		typ, object, err := decoder.Decode()
		if err != nil {
			g.Expect(err).To(MatchError(io.EOF))
			break
		}
		name := "error"
		if o, ok := object.(metav1.Object); ok {
			name = o.GetName()
		}
		got = append(got, fmt.Sprint(typ, " ", name))
	}
	g.Expect(got).To(Equal([]string{"ADDED 1", "MODIFIED 4", "DELETED 6", "BOOKMARK ", "ADDED 7", "ERROR error"}))
}

func TestAListLeavesOutWhatIsNotWanted(t *testing.T) {
	for _, namespaces := range []string{"ab", "ba", "aab", "a", "b"} {
		t.Run(namespaces, func(t *testing.T) { leavesOut(t, namespaces) })
	}
}

// leavesOut filters a list whose items have these namespaces in turn.
func leavesOut(t *testing.T, namespaces string) {
	g := NewWithT(t)
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"}}
	var wanted []corev1.ConfigMap
	for n := range 20 {
		list.Items = append(list.Items, *configMap(string(namespaces[n%len(namespaces)]), fmt.Sprint(n)))
		if list.Items[n].Namespace == "a" {
			wanted = append(wanted, list.Items[n])
		}
	}
	info := wiretest.InfoOf(runtime.ContentTypeProtobuf)
	codecs := scheme.Codecs.WithoutConversion()
	sent, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), list)
	g.Expect(err).NotTo(HaveOccurred())
	decoded, err := runtime.Decode(codecs.DecoderToVersion(info.Serializer, nil), wire.FilteredList(sent, onlyA))
	g.Expect(err).NotTo(HaveOccurred())
	got := decoded.(*corev1.ConfigMapList)
	g.Expect(got.ListMeta).To(Equal(list.ListMeta))
	g.Expect(got.Items).To(HaveExactElements(wanted))
	for n := range sent { // a list that is cut off is passed on unchanged, so that the client returns the error
		g.Expect(func() { wire.FilteredList(sent[:n], onlyA) }).NotTo(Panic())
	}
	g.Expect(wire.FilteredList([]byte(`{"items":[]}`), onlyA)).To(BeEquivalentTo(`{"items":[]}`))
}

// Pages are read one after the other into the same memory, and none retains it.
func TestPagesDoNotShareMemory(t *testing.T) {
	g := NewWithT(t)
	info := wiretest.InfoOf(runtime.ContentTypeProtobuf)
	codecs := scheme.Codecs.WithoutConversion()
	page := func(name string) io.ReadCloser {
		list := &corev1.ConfigMapList{Items: []corev1.ConfigMap{*configMap("a", name), *configMap("b", name)}}
		sent, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), list)
		g.Expect(err).NotTo(HaveOccurred())
		return wire.FilteredPage(reader(sent), onlyA)
	}
	read := func(of io.Reader) string {
		data, err := io.ReadAll(of)
		g.Expect(err).NotTo(HaveOccurred())
		decoded, err := runtime.Decode(codecs.DecoderToVersion(info.Serializer, nil), data)
		g.Expect(err).NotTo(HaveOccurred())
		items := decoded.(*corev1.ConfigMapList).Items
		g.Expect(items).To(HaveLen(1))
		return items[0].Name
	}
	first, second := page("first"), page("other")
	_, err := first.Read(nil) // it is read whole, and filtered
	g.Expect(err).NotTo(HaveOccurred())
	_, err = second.Read(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read(first)).To(Equal("first"))
	g.Expect(read(second)).To(Equal("other"))
}

// Unwanted objects cost no memory.
func TestWhatIsLeftOutAllocatesNothing(t *testing.T) {
	g := NewWithT(t)
	frame := protobuf(watch.Event{Type: watch.Modified, Object: configMap("b", "3")})[4:]
	g.Expect(testing.AllocsPerRun(100, func() { wire.Wants(onlyA, frame) })).To(BeZero())
	g.Expect(wire.Wants(onlyA, frame)).To(BeFalse())
}
