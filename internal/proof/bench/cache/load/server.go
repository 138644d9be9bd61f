package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	version   = "9000000"
	mediaType = "application/vnd.kubernetes.protobuf"
)

// A Server answers lists (in pages) and streaming lists of Pods or Secrets in
// protobuf, from prepared bytes. A POST to /events makes it send events to one
// watch. The request contains the number of events and the interval between
// them.
type Server struct {
	path    string
	events  [][]byte // framed watch events
	objects []runtime.Object
	list    runtime.Object // an empty list of the kind
	orders  chan order     // each order is executed by one of the watches

	sending sync.Mutex // held while an order is executed; guards updates
	updates []update
}

// object is an object that knows its size in protobuf.
type object interface {
	metav1.Object
	runtime.Object
	Size() int
}

// NewServer returns a server with count Pods, sorted by namespace and name as
// in etcd. shape makes Pod n. In the updates, Pods become unready and ready
// again.
func NewServer(count int, shape func(n int) *corev1.Pod) (*Server, error) {
	return newServer("/api/v1/pods", &corev1.PodList{}, made(count, shape), unready)
}

// NewServerOfAnnotated returns a server like [NewServer], except that each
// update changes an annotation of a Pod.
func NewServerOfAnnotated(count int, shape func(n int) *corev1.Pod) (*Server, error) {
	return newServer("/api/v1/pods", &corev1.PodList{}, made(count, shape), annotated)
}

// NewServerOfSecrets returns a server with count Secrets. Each update changes
// an annotation of a Secret.
func NewServerOfSecrets(count int) (*Server, error) {
	return newServer("/api/v1/secrets", &corev1.SecretList{}, made(count, Secret), annotated)
}

func made[T object](count int, shape func(n int) T) []T {
	objects := make([]T, count)
	for n := range objects {
		objects[n] = shape(n)
	}
	slices.SortFunc(objects, func(a, b T) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return objects
}

func newServer[T object](path string, list runtime.Object, objects []T, change func(T) T) (*Server, error) {
	s := &Server{path: path, list: list, orders: make(chan order)}
	for _, o := range objects {
		event, err := frame(watch.Added, o)
		if err != nil {
			return nil, err
		}
		s.events, s.objects = append(s.events, event), append(s.objects, o)
	}
	var err error
	s.updates, err = updatesOf(objects, change)
	return s, err
}

// Size returns the mean size of an object in protobuf.
func (s *Server) Size() int {
	sum := 0
	for _, o := range s.objects {
		sum += o.(object).Size()
	}
	return sum / len(s.objects)
}

func encoder() runtime.Encoder {
	return scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion)
}

// frame returns a watch event in the form in which it is sent: its length,
// followed by its bytes.
func frame(kind watch.EventType, object runtime.Object) ([]byte, error) {
	raw, err := runtime.Encode(encoder(), object)
	if err != nil {
		return nil, fmt.Errorf("encoding an event: %w", err)
	}
	event := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}
	var body bytes.Buffer
	if err := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme).Encode(event, &body); err != nil {
		return nil, fmt.Errorf("encoding an event: %w", err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(body.Len())), body.Bytes()...), nil
}

// ServeHTTP answers lists and watches. When a client posts to /events, it sends
// events to one of the watches.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/events" && r.Method == http.MethodPost:
		s.order(w, r)
		return
	case r.URL.Path != s.path:
		http.NotFound(w, r)
		return
	}
	if query := r.URL.Query(); query.Get("watch") == "" || query.Get("watch") == "false" {
		s.sendPage(w, query.Get("limit"), query.Get("continue"))
		return
	}
	w.Header().Set("Content-Type", mediaType+";stream=watch")
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, event := range s.events {
			if _, err := w.Write(event); err != nil {
				return
			}
		}
		event, err := frame(watch.Bookmark, s.bookmark())
		if err != nil {
			return
		}
		_, _ = w.Write(event)
	}
	w.(http.Flusher).Flush()
	s.watch(w, r)
}

// bookmark returns the object of the bookmark that ends a streaming list.
func (s *Server) bookmark() runtime.Object {
	end := reflect.New(reflect.TypeOf(s.objects[0]).Elem()).Interface().(object)
	end.SetResourceVersion(version)
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return end
}

func (s *Server) sendPage(w http.ResponseWriter, limit, token string) {
	start, _ := strconv.Atoi(token)
	end := len(s.objects)
	if n, _ := strconv.Atoi(limit); n > 0 {
		end = min(end, start+n)
	}
	page := s.list.DeepCopyObject()
	accessor, _ := meta.ListAccessor(page)
	accessor.SetResourceVersion(version)
	if end < len(s.objects) {
		accessor.SetContinue(strconv.Itoa(end))
	}
	_ = meta.SetList(page, s.objects[start:end])
	w.Header().Set("Content-Type", mediaType)
	_ = encoder().Encode(page, w)
}
