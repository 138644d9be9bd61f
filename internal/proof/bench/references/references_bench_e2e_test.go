//go:build e2e

// Package references_test measures an operator that reads what its objects
// refer to, beside the same one with a cache of everything and the same one
// written with controller-runtime, on a real API server.
package references_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/proof/bench/crowd"
	"github.com/homeostat/homeostat/internal/proof/bench/references/app"
)

// No operator here reads Pods and Events.
var unread = flag.Float64("unread", 1, "share of the Pods and Events of the crowded cluster that are created")

// BenchmarkForeignSecrets measures the resident memory of an operator whose 100
// objects refer to a Secret each, with more and more other Secrets of 32 KB.
func BenchmarkForeignSecrets(b *testing.B) {
	const apps, bytes = 100, 32 << 10
	s := newStage(b)
	s.namespaces(101)
	referred := func(n int) (string, string) { return namespace(100), fmt.Sprint("referred-", n) }
	s.secrets(0, apps, 1<<10, referred)
	s.each(apps, func(ctx context.Context, n int) error {
		in, name := referred(n)
		return s.app(ctx, in, fmt.Sprint("app-", n), app.Spec{Secrets: []string{name}})
	})
	there := 0
	for _, n := range []int{0, 3000, 10_000} {
		s.secrets(there, n, bytes, func(n int) (string, string) { return namespace(n % 100), fmt.Sprint("foreign-", n) })
		there = n
		for _, command := range []string{"homeostat", "homeostat --all", "controller-runtime"} {
			b.Run(fmt.Sprintf("secrets=%d/impl=%s", n, strings.ReplaceAll(command, " -", "")), func(b *testing.B) {
				for b.Loop() {
					p := s.start(fmt.Sprintf("%s --apps=%d", command, apps))
					s.Expect(p.line()).To(Equal("done"))
					s.atRest(b, p, "")
					p.stop()
				}
			})
		}
	}
}

// atRest reports the peak of the resident memory since the start, and how much
// it is after a while.
func (s *stage) atRest(b *testing.B, p *program, when string) {
	b.Helper()
	pause(rests)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(p.peak(), when+"peak-MiB")
	b.ReportMetric(p.resident(), when+"rest-MiB")
}

// BenchmarkCrowded measures an operator with 50 objects, each of which refers to
// two Secrets and a ConfigMap and owns a Deployment, a Service and a Secret, in
// a cluster as it was reported by one whose operator was killed.
func BenchmarkCrowded(b *testing.B) {
	const apps, namespaces = 50, crowd.Namespaces
	s := newStage(b)
	s.Expect(crowd.Fill(b.Context(), s.client, crowd.Share{Pods: *unread, Events: *unread})).To(Succeed())
	for _, impl := range []string{"homeostat", "controller-runtime"} {
		s.each(apps, func(ctx context.Context, n int) error {
			return s.app(ctx, namespace(n), impl, app.Spec{
				Secrets: []string{fmt.Sprint("s-", n), fmt.Sprint("s-", n+namespaces)}, ConfigMap: fmt.Sprint("c-", n),
			})
		})
		b.Run("impl="+impl, func(b *testing.B) {
			for b.Loop() {
				for _, when := range []string{"start-", "restart-"} {
					began := time.Now()
					p := s.start(fmt.Sprintf("%s --own --apps=%d", impl, apps))
					s.Expect(p.line()).To(Equal("done"))
					b.ReportMetric(time.Since(began).Seconds(), when+"s")
					s.atRest(b, p, when)
					p.stop()
				}
			}
		})
		s.Expect(s.made(impl)).To(Equal(3 * apps))
		s.each(apps, func(ctx context.Context, n int) error {
			return s.apps.In(namespace(n)).Delete(ctx, impl, metav1.DeleteOptions{})
		})
	}
}

// made returns how many objects an operator has made.
func (s *stage) made(name string) (n int) {
	o := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	deployments, err := s.client.AppsV1().Deployments("").List(s.b.Context(), o)
	s.Expect(err).NotTo(HaveOccurred())
	services, err := s.client.CoreV1().Services("").List(s.b.Context(), o)
	s.Expect(err).NotTo(HaveOccurred())
	secrets, err := s.client.CoreV1().Secrets("").List(s.b.Context(), o)
	s.Expect(err).NotTo(HaveOccurred())
	return len(deployments.Items) + len(services.Items) + len(secrets.Items)
}
