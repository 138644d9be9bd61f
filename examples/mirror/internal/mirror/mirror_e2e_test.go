//go:build e2e

package mirror_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/mirror/internal/mirror"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/patch"
)

func TestE2EMirror(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "mirror on the real server")
}

const teams = 200

var _ = It("copies into every team, follows its source, tells a conflict, and leaves nothing", func(ctx SpecContext) {
	server := stage.Open(ctx, nil)
	server.Deploy(ctx, mirror.Name, "../../deploy")
	kind, err := mirror.NewKind(stage.Reach(server.Config()))
	Expect(err).NotTo(HaveOccurred())
	Expect(kind.Check(ctx)).To(Succeed(), "it is cluster-scoped there, too")
	core := server.User.CoreV1()
	for i := range teams {
		_, err := core.Namespaces().Create(ctx, namespace(fmt.Sprint("team-", i), "yes"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	_, err = core.Namespaces().Create(ctx, namespace("home", "no"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	source, err := core.Secrets("home").Create(ctx, secret("home", "pass", "0"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	theirs, err := core.Secrets("team-7").Create(ctx, secret("team-7", "pass", "theirs"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	run := server.Start(server.Account, &wiretap.Tap{}, makeController)
	_, err = kind.In("").Create(ctx, mirrorOf("m", "pass"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())

	copies := func(value string) func(context.Context) (int, error) {
		return func(ctx context.Context) (n int, err error) {
			all, err := core.Secrets("").List(ctx, metav1.ListOptions{LabelSelector: "homeostat.dev/owner-name=m"})
			if err != nil {
				return 0, err
			}
			for i := range all.Items {
				if string(all.Items[i].Data["is"]) == value {
					n++
				}
			}
			return n, nil
		}
	}
	Eventually(ctx, copies("0"), stage.Patience).Should(Equal(teams - 1))
	Eventually(ctx, func(ctx context.Context) (string, error) {
		m, err := kind.In("").Get(ctx, "m", metav1.GetOptions{})
		if err != nil || len(m.Status.Conditions) == 0 {
			return "", err
		}
		return m.Status.Conditions[0].Reason, nil
	}, stage.Patience).Should(Equal("Conflict"))
	Eventually(ctx, func(ctx context.Context) ([]string, error) {
		all, err := server.User.EventsV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=Conflict"})
		var notes []string
		for i := range all.Items {
			notes = append(notes, all.Items[i].Note)
		}
		return notes, err
	}, stage.Patience).Should(ContainElement(ContainSubstring("team-7/pass")))
	_, err = patch.Merge(ctx, core.Secrets, source, nil, func(s *corev1.Secret) { s.Data["is"] = []byte("1") })
	Expect(err).NotTo(HaveOccurred())
	began := time.Now()
	Eventually(ctx, copies("1"), stage.Patience, 5*time.Millisecond).Should(Equal(teams - 1))
	GinkgoWriter.Println(teams, "copies follow their source in", time.Since(began))
	left, err := core.Secrets("team-7").Get(ctx, "pass", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(left).To(Equal(theirs), "it is not ours")

	Expect(run.Stop()).To(Succeed())
	Expect(kind.In("").Delete(ctx, "m", metav1.DeleteOptions{})).To(Succeed())
	server.Start(server.Account, &wiretap.Tap{}, makeController)
	Eventually(ctx, copies("1"), stage.Patience).Should(BeZero(), "it was deleted while nothing ran")
}, SpecTimeout(5*time.Minute))
