package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
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

// A Server answers lists (in pages) and streaming lists of Pods in protobuf,
// from prepared bytes. A POST to /events makes it send events to one watch. The
// request contains the number of events and the interval between them.
type Server struct {
	events [][]byte // framed watch events
	pods   []corev1.Pod
	orders chan order // each order is executed by one of the watches

	sending sync.Mutex // held while an order is executed; guards updates
	updates []update
}

// NewServer returns a server of count Pods, sorted by namespace and name as in
// etcd. shape makes Pod n.
func NewServer(count int, shape func(n int) *corev1.Pod) (*Server, error) {
	s := &Server{pods: make([]corev1.Pod, count), orders: make(chan order)}
	for n := range s.pods {
		s.pods[n] = *shape(n)
	}
	slices.SortFunc(s.pods, func(a, b corev1.Pod) int {
		return bytes.Compare([]byte(a.Namespace+"/"+a.Name), []byte(b.Namespace+"/"+b.Name))
	})
	for n := range s.pods {
		event, err := frame(watch.Added, &s.pods[n])
		if err != nil {
			return nil, err
		}
		s.events = append(s.events, event)
	}
	var err error
	s.updates, err = updatesOf(s.pods)
	return s, err
}

// Size returns the mean size of a Pod in protobuf.
func (s *Server) Size() int {
	sum := 0
	for n := range s.pods {
		sum += s.pods[n].Size()
	}
	return sum / len(s.pods)
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

// ServeHTTP answers lists, watches and requests for events.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/events" && r.Method == http.MethodPost:
		s.order(w, r)
		return
	case r.URL.Path != "/api/v1/pods":
		http.NotFound(w, r)
		return
	}
	if query := r.URL.Query(); query.Get("watch") == "" || query.Get("watch") == "false" {
		s.list(w, query.Get("limit"), query.Get("continue"))
		return
	}
	w.Header().Set("Content-Type", mediaType+";stream=watch")
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, event := range s.events {
			if _, err := w.Write(event); err != nil {
				return
			}
		}
		end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		event, err := frame(watch.Bookmark, end)
		if err != nil {
			return
		}
		_, _ = w.Write(event)
	}
	w.(http.Flusher).Flush()
	s.watch(w, r)
}

func (s *Server) list(w http.ResponseWriter, limit, token string) {
	start, _ := strconv.Atoi(token)
	end := len(s.pods)
	if n, _ := strconv.Atoi(limit); n > 0 {
		end = min(end, start+n)
	}
	page := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: s.pods[start:end]}
	if end < len(s.pods) {
		page.Continue = strconv.Itoa(end)
	}
	w.Header().Set("Content-Type", mediaType)
	_ = encoder().Encode(page, w)
}
