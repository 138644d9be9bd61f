package load

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// An order is a client's request to send events to a watch.
type order struct {
	count    int
	interval time.Duration // the time between two events; 0 means as fast as possible
	ended    chan error
}

const (
	// fresh is the number of objects that are updated. They are the last ones
	// of the list, so they wait longest for their first reconcile.
	fresh = 2000
	// stride is the distance in the list between two objects that are updated
	// one after the other. Because of it, the order of the updates differs from
	// the order of the list.
	stride = 7919
	// first is a resourceVersion with as many digits as a time in nanoseconds.
	first = 1_000_000_000_000_000_000
)

// SentAt returns when the Server has sent this version of pod. Updates have the
// time as their resourceVersion.
func SentAt(pod *corev1.Pod) (sent time.Time, ok bool) {
	n, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	return time.Unix(0, n), err == nil && n > first
}

func (s *Server) order(w http.ResponseWriter, r *http.Request) {
	count, err := strconv.Atoi(r.FormValue("count"))
	o := order{count: count, ended: make(chan error, 1)}
	if interval := r.FormValue("every"); interval != "" && err == nil {
		o.interval, err = time.ParseDuration(interval)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case s.orders <- o:
		if err := <-o.ended; err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	case <-r.Context().Done():
	}
}

// watch executes orders until the client closes the connection.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	for {
		select {
		case <-r.Context().Done():
			return
		case o := <-s.orders:
			o.ended <- s.send(w, o)
		}
	}
}

// An update is a framed event with room for a new resourceVersion.
type update struct{ frame, version []byte }

// updatesOf returns the updates that are sent repeatedly, one after the other.
// The first half changes objects, and the second half takes the changes back.
func updatesOf[T object](objects []T, change func(T) T) ([]update, error) {
	last := objects[max(0, len(objects)-fresh):]
	updates := make([]update, 2*len(last))
	for n := range updates {
		o := last[(n*stride)%len(last)].DeepCopyObject().(T)
		if n < len(last) {
			o = change(o)
		}
		o.SetResourceVersion(strconv.Itoa(first))
		event, err := frame(watch.Modified, o)
		if err != nil {
			return nil, err
		}
		rv := []byte(o.GetResourceVersion())
		i := bytes.Index(event, rv)
		if i < 0 || bytes.Count(event, rv) != 1 {
			return nil, fmt.Errorf("encoding an event: the resourceVersion of %s does not occur exactly once", o.GetName())
		}
		updates[n] = update{event, event[i : i : i+len(rv)]}
	}
	return updates, nil
}

// annotated returns a copy of an object with an annotation that contains a
// time.
func annotated[T object](o T) T {
	o = o.DeepCopyObject().(T)
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["n"] = "1764262224123456789"
	o.SetAnnotations(annotations)
	return o
}

// unready returns pod with the status that the kubelet writes after a failed
// probe.
func unready(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	now := metav1.NewTime(pod.CreationTimestamp.Add(time.Hour))
	for n := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[n]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, now
			c.Reason, c.Message = "ContainersNotReady", "containers with unready status: ["+pod.Spec.Containers[0].Name+"]"
		}
	}
	pod.Status.ContainerStatuses[0].Ready = false
	pod.ManagedFields[1].Time = &now
	return pod
}

func (s *Server) send(w http.ResponseWriter, o order) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	tick := time.NewTicker(max(o.interval, time.Nanosecond))
	defer tick.Stop()
	version := int64(first)
	for n := range o.count {
		if o.interval > 0 {
			<-tick.C
		}
		version = max(version+1, time.Now().UnixNano())
		next := s.updates[n%len(s.updates)]
		strconv.AppendInt(next.version, version, 10)
		if _, err := w.Write(next.frame); err != nil {
			return fmt.Errorf("sending an event: %w", err)
		}
		if o.interval > 0 {
			w.(http.Flusher).Flush()
		}
	}
	w.(http.Flusher).Flush()
	return nil
}
