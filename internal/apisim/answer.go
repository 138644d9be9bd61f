package apisim

import (
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
