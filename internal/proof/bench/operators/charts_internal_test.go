package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
)

func TestTheIndexShowsThePassword(t *testing.T) {
	g := NewWithT(t)
	get := func(password string) *httptest.ResponseRecorder {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/index.yaml", http.NoBody)
		if password != "" {
			request.SetBasicAuth("user", password)
		}
		charts(answer, request)
		return answer
	}
	g.Expect(get("").Code).To(Equal(http.StatusUnauthorized))
	g.Expect(get("first").Body.String()).To(Equal(index("first")))
	g.Expect(get("second").Body.String()).To(And(Equal(index("second")), Not(Equal(index("first")))))
}
