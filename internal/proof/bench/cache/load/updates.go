package load

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// An order is a request for events.
type order struct {
	count int
	every time.Duration // 0 means as fast as possible
	ended chan error
}

const (
	// fresh is the number of Pods that are updated. They are the last ones,
	// which wait longest for their first reconcile.
	fresh = 2000
	// stride is the step by which updates go through them, so that their order
	// differs from the list's.
	stride = 7919
	// first is a resourceVersion with as many digits as a time in nanoseconds.
	first = 1_000_000_000_000_000_000
)

// SentAt returns when the Server has sent this version of pod. Updates have the
// time as their resourceVersion.
func SentAt(pod *corev1.Pod) (at time.Time, ok bool) {
	n, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	return time.Unix(0, n), err == nil && n > first
}

func (s *Server) order(w http.ResponseWriter, r *http.Request) {
	count, err := strconv.Atoi(r.FormValue("count"))
	o := order{count: count, ended: make(chan error, 1)}
	if every := r.FormValue("every"); every != "" && err == nil {
		o.every, err = time.ParseDuration(every)
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

// An update is a framed event with room for another resourceVersion.
type update struct{ frame, version []byte }

// updatesOf returns the updates that are sent repeatedly, one after the other.
// Pods become unready, and then ready again.
func updatesOf(pods []corev1.Pod) ([]update, error) {
	last := pods[max(0, len(pods)-fresh):]
	all := make([]update, 2*len(last))
	for n := range all {
		pod := last[(n*stride)%len(last)]
		if n < len(last) {
			pod = *unready(&pod)
		}
		pod.ResourceVersion = strconv.Itoa(first)
		event, err := frame(watch.Modified, &pod)
		if err != nil {
			return nil, err
		}
		at := bytes.Index(event, []byte(pod.ResourceVersion))
		if at < 0 || bytes.Count(event, []byte(pod.ResourceVersion)) != 1 {
			return nil, fmt.Errorf("encoding an event: no place for the version of %s", pod.Name)
		}
		all[n] = update{event, event[at : at : at+len(pod.ResourceVersion)]}
	}
	return all, nil
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
	tick := time.NewTicker(max(o.every, time.Nanosecond))
	defer tick.Stop()
	version := int64(first)
	for n := range o.count {
		if o.every > 0 {
			<-tick.C
		}
		version = max(version+1, time.Now().UnixNano())
		next := s.updates[n%len(s.updates)]
		strconv.AppendInt(next.version, version, 10)
		if _, err := w.Write(next.frame); err != nil {
			return fmt.Errorf("sending an event: %w", err)
		}
		if o.every > 0 {
			w.(http.Flusher).Flush()
		}
	}
	w.(http.Flusher).Flush()
	return nil
}
