package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
)

// Answer returns a step after which the server answers calls of the program
// with a code and a body, and does not execute them. After a step with the code
// 0, the server executes the calls again. This example is a quota that is
// exhausted and then raised:
//
//	Workload: []reconciletest.Step{
//		reconciletest.Answer("create pods", 403, ""),
//		reconciletest.Create(app),
//		reconciletest.Answer("create pods", 0, ""),
//	},
//
// pattern selects the calls. It consists of the verb as in RBAC, the resource,
// and optionally the key of one object. There may be several verbs, separated
// by commas, and "*" stands for every verb. Examples are "get,list secrets", "*
// pods/status" and "delete jobs.batch d/nightly". If several steps match a
// call, the newest step counts.
//
// An empty body stands for the Status that a server sends with the code. Any
// other body is sent unchanged: as JSON if it begins with a brace, and
// otherwise as plain text, like the answer of a proxy.
//
// Step.Do returns an error if pattern is malformed, if the code is neither 0
// nor from 100 to 599, or if the server is not simulated.
func Answer(pattern string, code int, body string) Step {
	name := fmt.Sprintf("answer %d to %s", code, pattern)
	if code == 0 {
		name = "answer as usual to " + pattern
	}
	return Step{Name: name, single: true, Do: func(_ context.Context, w *World) error {
		if _, simulated := w.server.(backend.Simulated); !simulated {
			return errors.New("answering calls of the program: only the simulated server can do that")
		}
		words := strings.Fields(pattern)
		if len(words) < 2 || len(words) > 3 || code != 0 && (code < 100 || code > 599) {
			return fmt.Errorf("answering calls of the program: %q, %d: "+
				"want a verb, a resource, an optional key, and an HTTP status code", pattern, code)
		}
		a := wrongAnswer{verbs: strings.Split(words[0], ","), code: code, body: body}
		a.resource, a.subresource, _ = strings.Cut(words[1], "/")
		a.key = strings.Join(words[2:], "")
		w.answers = append(w.answers, a)
		return nil
	}}
}

// wrongAnswer is the answer that a step of [Answer] has set.
type wrongAnswer struct {
	verbs                      []string
	resource, subresource, key string
	code                       int
	body                       string
}

// matches reports whether the answer applies to a call.
func (a *wrongAnswer) matches(c apisim.Call) bool {
	resource := c.Resource.GroupResource()
	return (slices.Contains(a.verbs, c.Verb) || slices.Contains(a.verbs, "*")) &&
		(a.resource == resource.String() || a.resource == resource.Resource) && a.subresource == c.Subresource &&
		(a.key == "" || a.key == strings.TrimPrefix(c.Namespace+"/"+c.Name, "/"))
}

// answered returns the reply that a step of [Answer] has set for a call, or
// nil.
func (w *World) answered(c apisim.Call) *apisim.Reply {
	if !isProgram(c.Client) {
		return nil
	}
	for _, a := range slices.Backward(w.answers) {
		switch {
		case !a.matches(c):
			continue
		case a.code == 0:
			return nil
		case a.body != "":
			return &apisim.Reply{Code: a.code, Body: []byte(a.body)}
		}
		return statusReply(int32(a.code), reasonOf(a.code), c, fmt.Sprintf( //nolint:gosec // it is at most 599
			"%s: %s, as the case says", titleOf(c), http.StatusText(a.code)))
	}
	return nil
}

// reasonOf returns the reason of the Status that a server sends with a code.
func reasonOf(code int) metav1.StatusReason {
	reasons := map[int]metav1.StatusReason{
		http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusMethodNotAllowed: metav1.StatusReasonMethodNotAllowed, http.StatusConflict: metav1.StatusReasonConflict,
		http.StatusGone:                  metav1.StatusReasonExpired,
		http.StatusRequestEntityTooLarge: metav1.StatusReasonRequestEntityTooLarge,
		http.StatusUnprocessableEntity:   metav1.StatusReasonInvalid,
		http.StatusTooManyRequests:       metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError:   metav1.StatusReasonInternalError,
		http.StatusServiceUnavailable:    metav1.StatusReasonServiceUnavailable,
		http.StatusGatewayTimeout:        metav1.StatusReasonTimeout,
	}
	return reasons[code]
}
