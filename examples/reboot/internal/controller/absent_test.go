package controller_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
)

// answer answers the requests of that kind with a page that is not the
// server's, until the function that it returns is called, which returns how
// many there were.
func (s *stage) answer(page absenttest.Page, method, path string) (end func() int) {
	count := 0
	before := func(r *http.Request) *http.Response {
		if r.Method != method || r.URL.Path != path {
			return nil
		}
		count++
		return page.Response(r)
	}
	s.before.Store(&before)
	return func() int {
		s.before.Store(nil)
		return count
	}
}

// A node that a proxy does not find keeps its slot: it may reboot at any time.
func TestAPageReleasesNoSlot(t *testing.T) {
	pages := append(absenttest.Pages(corev1.Resource("nodes"), "n1"), absenttest.Successes()...)
	pages = append(pages, absenttest.Page{
		Name: "a node without a UID", ContentType: "application/json", Status: http.StatusOK,
		Body: `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}`,
	})
	for _, page := range pages {
		t.Run(page.Name, func(t *testing.T) {
			play(t, func(s *stage) {
				s.group("g", intstr.FromInt32(1), nil)
				s.asking("n1")
				s.pass(time.Minute)
				s.Expect(s.granted("n1")).To(gomega.BeTrue())
				end := s.answer(page, http.MethodGet, nodes+"/n1")
				s.groupPatch("g", `{"spec":{"paused":true}}`)
				s.asking("n2")
				s.pass(time.Minute)
				s.Expect(end()).To(gomega.BeNumerically(">", 1), "it asks again")
				s.Expect(s.holders("g")).To(gomega.Equal([]string{"n1"}))
				s.Expect(s.granted("n1")).To(gomega.BeTrue(), "the permission was not taken back")
				s.pass(10 * time.Minute)
				s.Expect(s.granted("n1")).To(gomega.BeFalse(), "the group is paused")
			})
		})
	}
}

// A status 409 that is not the server's own is a failure, which backs off: no
// newer state cures it.
func TestAPageIsNoConflict(t *testing.T) {
	for _, page := range absenttest.Conflicts() {
		t.Run(page.Name, func(t *testing.T) {
			play(t, func(s *stage) {
				s.group("g", intstr.FromInt32(1), nil)
				s.node("n1", nil)
				s.pass(time.Minute)
				end := s.answer(page, http.MethodPatch, groups+"/g/status")
				s.ask("n1")
				s.pass(10 * time.Minute)
				s.Expect(s.logged("reconcile failed, retrying")).NotTo(gomega.BeEmpty())
				s.Expect(end()).To(gomega.And(gomega.BeNumerically(">", 5), gomega.BeNumerically("<", 60)))
				s.Expect(s.granted("n1")).To(gomega.BeFalse())
				s.pass(10 * time.Minute)
				s.Expect(s.events.count("Granted")).To(gomega.Equal(1))
			})
		})
	}
}
