//go:build e2e

package mirror_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/mirror/internal/mirror"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

func TestE2EMirror(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "mirror on the real server")
}

const teams = 200

var _ = It("copies into every team, follows its source, tells a conflict, and leaves nothing", func(ctx SpecContext) {
	s := openTenants(ctx, teams)
	kind, err := mirror.NewKind(stage.Reach(s.Config()))
	Expect(err).NotTo(HaveOccurred())
	Expect(kind.Check(ctx)).To(Succeed(), "it is cluster-scoped there, too")
	core := s.User.CoreV1()
	theirs, err := core.Secrets("team-7").Create(ctx, secret("team-7", "pass", "theirs"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	run := s.Start(s.Account, &wiretap.Tap{}, makeController)
	_, err = s.mirrors.Create(ctx, mirrorOf("m", "pass"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())

	Eventually(ctx, s.copies("0"), stage.Patience).Should(Equal(teams - 1))
	Eventually(ctx, s.ready, stage.Patience).Should(HavePrefix("200 Conflict"))
	Eventually(ctx, func(ctx context.Context) ([]string, error) {
		all, err := s.User.EventsV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=Conflict"})
		var notes []string
		for i := range all.Items {
			notes = append(notes, all.Items[i].Note)
		}
		return notes, err
	}, stage.Patience).Should(ContainElement(ContainSubstring("team-7/pass")))
	s.change(ctx, "1")
	began := time.Now()
	Eventually(ctx, s.copies("1"), stage.Patience, 5*time.Millisecond).Should(Equal(teams - 1))
	GinkgoWriter.Println(teams, "copies follow their source in", time.Since(began))
	left, err := core.Secrets("team-7").Get(ctx, "pass", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(left).To(Equal(theirs), "it is not ours")

	Expect(run.Stop()).To(Succeed())
	Expect(s.mirrors.Delete(ctx, "m", metav1.DeleteOptions{})).To(Succeed())
	s.Start(s.Account, &wiretap.Tap{}, makeController)
	Eventually(ctx, s.copies("1"), stage.Patience).Should(BeZero(), "it was deleted while nothing ran")
}, SpecTimeout(5*time.Minute))
