//go:build e2e

package settings_test

import (
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

var _ = Describe("configmap-from-crs", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = cluster.TemporaryNamespace(ctx) })

	It("publishes, restores and retires the ConfigMap, and is quiet in between", func(ctx SpecContext) {
		tap := &wiretap.Tap{}
		startReal(tap)
		setting(ctx, namespace, "a", "colour", "red")
		output := outputIn(ctx, namespace)
		Eventually(ctx, output, stage.Patience).Should(Equal(map[string]string{"colour": "red"}))
		Eventually(ctx, reasonOf(ctx, namespace, "a"), stage.Patience).Should(Equal("Published"))
		setting(ctx, namespace, "b", "colour", "blue")
		Eventually(ctx, reasonOf(ctx, namespace, "b"), stage.Patience).Should(Equal("KeyTaken"))
		for how, tamper := range tamperReal(ctx, namespace) {
			began := time.Now()
			tamper()
			Eventually(ctx, output, stage.Patience, 5*time.Millisecond).Should(Equal(map[string]string{"colour": "red"}), how)
			AddReportEntry("restored", ReportEntryVisibilityAlways,
				fmt.Sprintf("%s, restored in %v", how, time.Since(began).Round(time.Millisecond)))
		}
		tap.Writes()
		Consistently(ctx, tap.Writes, 10*time.Second).Should(BeEmpty())
		for _, name := range []string{"a", "b"} {
			Expect(userSets(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
		Eventually(ctx, output, stage.Patience).Should(BeNil())
	}, SpecTimeout(3*time.Minute))

	It("restores nothing when the output is not watched", func(ctx SpecContext) {
		setting(ctx, namespace, "a", "colour", "red")
		output := outputIn(ctx, namespace)
		stop := startReal(&wiretap.Tap{})
		Eventually(ctx, reasonOf(ctx, namespace, "a"), stage.Patience).Should(Equal("Published"))
		stop()
		tap := &wiretap.Tap{Before: wiretap.Mute("/api/v1/configmaps")}
		Eventually(cluster.Start(cluster.Account, tap, makeController).Idle, stage.Patience).Should(BeTrue())
		tamperReal(ctx, namespace)["deleted"]()
		Consistently(ctx, output, 10*time.Second).Should(BeNil(), "red: this is what the watch is for")
		Expect(tap.Writes()).To(BeEmpty())
	}, SpecTimeout(3*time.Minute))

	It("retires what lost its last Setting while it was down", func(ctx SpecContext) {
		setting(ctx, namespace, "a", "colour", "red")
		stop := startReal(&wiretap.Tap{})
		Eventually(ctx, reasonOf(ctx, namespace, "a"), stage.Patience).Should(Equal("Published"))
		stop()
		Expect(userSets(namespace).Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
		tap := &wiretap.Tap{}
		startReal(tap)
		Eventually(ctx, outputIn(ctx, namespace), stage.Patience).Should(BeNil())
		Expect(tap.Writes()).To(Equal([]string{"DELETE /api/v1/namespaces/" + namespace + "/configmaps/settings"}))
	}, SpecTimeout(3*time.Minute))

	It("never writes to a ConfigMap of others", func(ctx SpecContext) {
		theirs, err := cluster.User.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"theirs": "x"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		startReal(&wiretap.Tap{})
		setting(ctx, namespace, "a", "colour", "red")
		Eventually(ctx, reasonOf(ctx, namespace, "a"), stage.Patience).Should(Equal("ConfigMapNotOurs"))
		Expect(userSets(namespace).Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
		Consistently(ctx, func() (string, error) {
			got, err := cluster.User.CoreV1().ConfigMaps(namespace).Get(ctx, "settings", metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return got.ResourceVersion, nil
		}, 5*time.Second).Should(Equal(theirs.ResourceVersion))
	}, SpecTimeout(3*time.Minute))

	It("does no write twice when it crashes after every write", func(ctx SpecContext) {
		for i := range 3 {
			setting(ctx, namespace, fmt.Sprint("s", i), fmt.Sprint("key", i), "x")
		}
		var all []string
		for range 4 {
			tap := &wiretap.Tap{}
			struck := make(chan struct{}, 100)
			tap.Committed = func(*http.Request) {
				tap.Kill()
				struck <- struct{}{}
			}
			stop := startReal(tap)
			Eventually(ctx, struck, stage.Patience).Should(Receive())
			stop()
			all = append(all, tap.Writes()...)
		}
		last := &wiretap.Tap{}
		startReal(last)
		Consistently(ctx, last.Writes, 5*time.Second).Should(BeEmpty())
		status := "/apis/" + api.Group + "/" + api.Version + "/namespaces/" + namespace + "/settings/"
		Expect(all).To(ConsistOf("POST /api/v1/namespaces/"+namespace+"/configmaps",
			"PATCH "+status+"s0/status", "PATCH "+status+"s1/status", "PATCH "+status+"s2/status"))
		Expect(outputIn(ctx, namespace)()).To(HaveLen(3))
	}, SpecTimeout(3*time.Minute))

	It("has a type that the server checks", func(ctx SpecContext) {
		_, err := userSets(namespace).Create(ctx, &api.Setting{
			ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: api.SettingSpec{Key: "no spaces"},
		}, metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("spec.key")))
	}, SpecTimeout(time.Minute))
})
