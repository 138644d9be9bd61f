package apisim

import (
	"bytes"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer is what the server answered to a call. Reason and Message are those of
// the Status of an error, and empty otherwise.
type Answer struct {
	Code    int
	Reason  metav1.StatusReason
	Message string
}

// OnAnswer sets a function that gets the answer of every call that is not the
// admin's, before the caller gets it. It does not see faults, whose answers are
// not the server's own. It runs in the goroutine of the caller.
func (s *Server) OnAnswer(see func(Call, Answer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = see
}

// tell calls the function of OnAnswer.
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

// Reply is an answer that the server gives in place of its own. A body that
// does not begin with a brace is plain text, as a proxy answers.
type Reply struct {
	Code int
	Body []byte
}

// ReplyWith sets a function that may answer a call in place of the server. The
// server answers itself where it returns nil. It does not get the admin's
// calls, and runs in the goroutine of the caller.
func (s *Server) ReplyWith(reply func(Call) *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = reply
}

// replied returns the answer of the function of ReplyWith, or nil.
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
