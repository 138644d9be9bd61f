//go:build e2e

package ingress_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

const (
	thousand   = 1000
	goWhile    = 200 // of them go while the controller is down
	userClient = 8
)

// each calls f for the names of the Services from one number to another, by
// several goroutines.
func each(from, to int, f func(name string)) {
	var users sync.WaitGroup
	for u := range userClient {
		users.Go(func() {
			defer GinkgoRecover()
			for i := from + u; i < to; i += userClient {
				f(fmt.Sprintf("service-%04d", i))
			}
		})
	}
	users.Wait()
}

var _ = Describe("A thousand Services", func() {
	It("converge by one write each, and 200 that go while it is down by one delete each", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		each(0, thousand, func(name string) { expose(ctx, namespace, name, 80) })

		first := start(cluster.Account, &wiretap.Tap{}, nil)
		report(ctx, first, "created", thousand)
		Expect(first.Tap.Counts()[http.MethodPost]).To(Equal(thousand))
		Expect(first.Stop()).To(Succeed())

		each(0, goWhile, func(name string) {
			Expect(cluster.User.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		})
		second := start(cluster.Account, &wiretap.Tap{}, nil)
		report(ctx, second, "deleted", goWhile)
		Consistently(ctx, second.Tap.Writes, 5*time.Second).Should(BeEmpty())
		counts := second.Tap.Counts()
		Expect(counts[http.MethodDelete]).To(Equal(goWhile))
		Expect(counts[http.MethodPost] + counts[http.MethodPatch]).To(BeZero())
		Expect(ingressesIn(ctx, namespace)).To(Equal(thousand - goWhile))
		Expect(second.Stop()).To(Succeed())
	}, SpecTimeout(8*time.Minute))
})

// report waits for a number of writes, and prints how long they took and how
// many requests there were.
func report(ctx context.Context, r *stage.Run, what string, number int) {
	GinkgoHelper()
	began := time.Now()
	writes := 0
	Eventually(ctx, func() int {
		writes += len(r.Tap.Writes())
		return writes
	}, 4*time.Minute, 10*time.Millisecond).Should(Equal(number))
	took := time.Since(began)
	Eventually(ctx, r.Idle, stage.Patience).Should(BeTrue())
	AddReportEntry("converged", ReportEntryVisibilityAlways,
		fmt.Sprintf("%d Ingresses %s in %v; requests: %v", number, what, took.Round(time.Millisecond), r.Tap.Counts()))
}
