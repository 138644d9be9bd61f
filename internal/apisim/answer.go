package apisim

import (
	"bytes"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer is the server's answer to a call. For an error, Reason and Message are
// copied from its Status; otherwise they are empty.
type Answer struct {
	Code    int
	Reason  metav1.StatusReason
	Message string
}

// OnAnswer sets a function that is called with the server's answer to each
// call, before the caller gets the answer. It is not called for calls of the
// admin, or for answers that a fault or the function of [Server.ReplyWith]
// makes up. With a [Scheduler], it is not called for late calls and for updates
// of a series of events. It runs in the goroutine of the caller.
func (s *Server) OnAnswer(see func(Call, Answer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = see
}

// tell calls the function that was set by OnAnswer, if there is one, except for
// calls of the admin.
func (s *Server) tell(c Call, code int, err error) {
	s.mu.Lock()
	see := s.answered
	s.mu.Unlock()
	if see == nil || c.Client == admin {
		return
	}
	a := Answer{Code: code}
	if err != nil {
		status := statusOf(err)
		a = Answer{Code: int(status.Code), Reason: status.Reason, Message: status.Message}
	}
	see(c, a)
}

// Reply is an answer that a test sets in place of the server's own. A body that
// does not begin with a brace is sent as plain text, like the answer of a
// proxy.
type Reply struct {
	Code int
	Body []byte
}

// ReplyWith sets a function that may answer a call in place of the server. If
// the function returns nil, the server answers the call itself. It is not
// called for the admin's calls and, with a [Scheduler], not for calls that a
// fault answers, late calls, and updates of a series of events. It runs in the
// goroutine of the caller.
func (s *Server) ReplyWith(reply func(Call) *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = reply
}

// replied returns the answer of the function that was set by ReplyWith. It
// returns nil if the server must answer itself.
func (s *Server) replied(c Call) *http.Response {
	s.mu.Lock()
	reply := s.reply
	s.mu.Unlock()
	if reply == nil || c.Client == admin {
		return nil
	}
	r := reply(c)
	if r == nil {
		return nil
	}
	return r.response()
}

func (r *Reply) response() *http.Response {
	out := &output{code: r.Code, body: r.Body}
	if !bytes.HasPrefix(bytes.TrimSpace(r.Body), []byte("{")) {
		out.media = "text/plain; charset=utf-8"
	}
	return respond(out, nil)
}
