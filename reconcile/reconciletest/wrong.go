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

// Answer returns a step from which on the server answers calls of the program
// with a code and a body, and does not execute them. With the code 0 it answers
// itself again. For example, a quota that is used up, and then raised:
//
//	Workload: []reconciletest.Step{
//		reconciletest.Answer("create pods", 403, ""),
//		reconciletest.Create(app),
//		reconciletest.Answer("create pods", 0, ""),
//	},
//
// when names the verb as RBAC does, or several with commas, or * for every
// verb, then the resource, and then, if it is about one object, the object's
// key: "get,list secrets", "* pods/status", "delete jobs.batch d/nightly". The
// newest step that matches a call counts.
//
// An empty body stands for the Status that a server sends with that code.
// Another body is sent as it is: as JSON if it begins with a brace, otherwise
// as plain text, as a proxy answers.
//
// Errors of its Do: when is not of that form; the server is a real one.
func Answer(when string, code int, body string) Step {
	name := fmt.Sprintf("answer %d to %s", code, when)
	if code == 0 {
		name = "answer as usual to " + when
	}
	return Step{Name: name, single: true, Do: func(_ context.Context, w *World) error {
		if _, simulated := w.server.(backend.Simulated); !simulated {
			return errors.New("answering calls of the program: only the simulated server can do that")
		}
		words := strings.Fields(when)
		if len(words) < 2 || len(words) > 3 || code != 0 && (code < 100 || code > 599) {
			return fmt.Errorf("answering calls of the program: %q, %d: "+
				"want a verb, a resource, perhaps a key, and a code of HTTP", when, code)
		}
		a := wrongAnswer{verbs: strings.Split(words[0], ","), code: code, body: body}
		a.resource, a.subresource, _ = strings.Cut(words[1], "/")
		a.key = strings.Join(words[2:], "")
		w.answers = append(w.answers, a)
		return nil
	}}
}

// wrongAnswer is what a step of Answer says.
type wrongAnswer struct {
	verbs                      []string
	resource, subresource, key string
	code                       int
	body                       string
}

// to reports whether it is the answer to a call.
func (a *wrongAnswer) to(c apisim.Call) bool {
	resource := c.Resource.GroupResource()
	return (slices.Contains(a.verbs, c.Verb) || slices.Contains(a.verbs, "*")) &&
		(a.resource == resource.String() || a.resource == resource.Resource) && a.subresource == c.Subresource &&
		(a.key == "" || a.key == strings.TrimPrefix(c.Namespace+"/"+c.Name, "/"))
}

// answered returns the reply to a call that a step of Answer asks for, or nil.
func (w *World) answered(c apisim.Call) *apisim.Reply {
	if !ofProgram(c.Client) {
		return nil
	}
	for _, a := range slices.Backward(w.answers) {
		switch {
		case !a.to(c):
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

// reasonOf returns the reason that a server gives with a code.
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
