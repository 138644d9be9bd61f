package cli

import (
	"bytes"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLogsForPeopleAreALineEach(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	said := func() string {
		defer out.Reset()
		return out.String()
	}
	s := settings{logFormat: "text"}
	logger := s.logger(&out).WithName("observe").WithValues("controller", "observe", "attempt", 2)
	logger.WithValues("namespace", "default", "name", "web").Error(errors.New("exit\nstatus \x1b[31m1"), "attempt failed")
	g.Expect(said()).To(Equal(`error: default/web: exit; status \x1b[31m1 (attempt failed)` + "\n"))
	logger.WithValues("namespace", "", "name", "node-1").Error(errors.New("no"), "attempt failed", "in", 3)
	g.Expect(said()).To(Equal("error: node-1: no (attempt failed in=3)\n"))
	logger.Info("waiting", "resource", "widgets")
	g.Expect(said()).To(Equal("observe: waiting resource=widgets\n"))
	logger.V(1).Info("details")
	g.Expect(said()).To(BeEmpty())

	s.verbosity = 1
	s.logger(&out).WithValues("attempt", 2).V(1).Info("details")
	g.Expect(said()).To(Equal("observe: details attempt=2\n"))
	s.logFormat = "json"
	s.logger(&out).Info("a \x1b")
	g.Expect(said()).To(ContainSubstring(`"msg":"a \u001b"`))
}

// From level 8 on, client-go logs the bodies of requests and answers.
func TestNoVerbosityShowsTheBodiesOfRequests(t *testing.T) {
	g := NewWithT(t)
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		logger := (&settings{logFormat: format, verbosity: 10}).logger(&out)
		logger.V(8).Info("Response Body", "body", "aA==")
		g.Expect(out.String()).To(BeEmpty())
		logger.V(7).Info("Response", "status", "200 OK")
		g.Expect(out.String()).To(ContainSubstring("200 OK"))
	}
}

// client-go logs the address of each request from level 6 on. The password of a
// server's address in the kubeconfig is part of it.
func TestNoVerbosityShowsThePasswordOfAServer(t *testing.T) {
	g := NewWithT(t)
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		logger := (&settings{logFormat: format, verbosity: 7}).logger(&out)
		logger.V(6).Info("Response", "url", "https://bob:s3cr3t@api.example.com/api?a=b@c", "status", "200 OK")
		g.Expect(out.String()).To(And(ContainSubstring("api.example.com/api?a=b@c"), Not(ContainSubstring("s3cr3t"))), format)
	}
}
