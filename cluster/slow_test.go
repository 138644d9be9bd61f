package cluster_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// slow delays the answers to writes of Secrets. It returns an error if the
// context of the write ends earlier.
type slow struct {
	http.RoundTripper
	sent  chan struct{} // receives when the server has written
	delay time.Duration
}

func (s *slow) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := s.RoundTripper.RoundTrip(req)
	if req.Method == http.MethodGet || err != nil || !strings.Contains(req.URL.Path, "/secrets") {
		return res, err
	}
	s.sent <- struct{}{}
	select {
	case <-time.After(s.delay):
		return res, nil
	case <-req.Context().Done():
		_ = res.Body.Close()
		return nil, req.Context().Err()
	}
}

func inSlowFixture(t *testing.T, f func(x *fixture, s *slow)) {
	t.Helper()
	s := &slow{delay: 3 * time.Second}
	inFixture(t, false, func(next http.RoundTripper) http.RoundTripper {
		s.RoundTripper, s.sent = next, make(chan struct{}, 10)
		return s
	}, func(x *fixture) { f(x, s) })
}

// A reconciler starts a goroutine that writes. Its cache is five seconds late.
func TestAWriteAnsweredAfterItsReconcileIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		secret    string
		contextOf func(context.Context) context.Context
		want      string // when the next reconcile begins, and what it sees
	}{
		"answered": {"s", context.WithoutCancel, "5s 2"},
		"refused":  {"there", context.WithoutCancel, "3s 1"},
		"lost, since the context ends with the reconcile": {
			"s", func(ctx context.Context) context.Context { return ctx }, "5s 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSlowFixture(t, func(x *fixture, s *slow) {
				x.createSecret("there", nil)
				in := x.secrets(nil)
				var began time.Time
				x.run(&reconcile.Options{Triggers: ofSecrets(in)}, func(ctx context.Context) error {
					if !began.IsZero() {
						x.note("%v %d", time.Since(began).Round(time.Second), in.Snapshot().Len())
						return nil
					}
					began = time.Now()
					go func() {
						_, _ = x.generated.CoreV1().Secrets(x.namespace).Create(c.contextOf(ctx),
							&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: c.secret}}, metav1.CreateOptions{})
					}()
					<-s.sent
					return nil
				})
				x.Expect(x.runs[0]).To(Equal(c.want))
			})
		})
	}
}

// No event follows the answer then, and the key must not wait for one.
func TestAChangeSeenBeforeTheAnswerDelaysNoKey(t *testing.T) {
	for name, act := range map[string]func(ctx context.Context, x *fixture) error{
		"a create": func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Create(ctx,
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"todo": "yes"}}}, metav1.CreateOptions{})
			return err
		},
		"a create that another client has undone": func(ctx context.Context, x *fixture) error {
			go func() {
				<-time.After(time.Second)
				_ = x.admin.CoreV1().Secrets(x.namespace).Delete(x.t.Context(), "s", metav1.DeleteOptions{})
			}()
			_, err := x.generated.CoreV1().Secrets(x.namespace).Create(ctx,
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"todo": "yes"}}}, metav1.CreateOptions{})
			return err
		},
		"a patch": func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Patch(ctx, "there", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		},
		"a patch after which the object leaves the selector": func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Patch(ctx, "there", types.MergePatchType, []byte(mergeDone),
				metav1.PatchOptions{})
			return err
		},
		"a delete": func(ctx context.Context, x *fixture) error {
			return x.generated.CoreV1().Secrets(x.namespace).Delete(ctx, "there", metav1.DeleteOptions{})
		},
		"a delete, and another client has recreated the object": func(ctx context.Context, x *fixture) error {
			go func() {
				<-time.After(time.Second)
				x.createSecret("there", map[string]string{"todo": "yes"})
			}()
			return x.generated.CoreV1().Secrets(x.namespace).Delete(ctx, "there", metav1.DeleteOptions{})
		},
		"a removal of the last finalizer": func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Patch(ctx, "ends", types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":[]}}`), metav1.PatchOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSlowFixture(t, func(x *fixture, _ *slow) {
				todo := map[string]string{"todo": "yes"}
				x.createSecret("there", todo)
				_, err := x.admin.CoreV1().Secrets(x.namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
					Name: "ends", Labels: todo, Finalizers: []string{"example.com/a"},
				}}, metav1.CreateOptions{})
				x.Expect(err).NotTo(HaveOccurred())
				x.Expect(x.admin.CoreV1().Secrets(x.namespace).Delete(t.Context(), "ends", metav1.DeleteOptions{})).To(Succeed())
				in := informer.For(x.generated.CoreV1().Secrets(x.namespace), &informer.Options{LabelSelector: "todo=yes"})
				x.Expect(reconciles(x, in, func(ctx context.Context) error { return act(ctx, x) })).To(BeNumerically(">=", 57))
			})
		})
	}
}

// The cache, which is five seconds late, shows the object and its removal
// between the request and the answer.
func TestADeleteIsSeenAlthoughOnlyTheCacheHasShownTheObject(t *testing.T) {
	inSlowFixture(t, func(x *fixture, s *slow) {
		s.delay = 7 * time.Second
		in := x.secrets(nil)
		x.Expect(reconciles(x, in, func(ctx context.Context) error {
			x.createSecret("s", nil)
			return x.generated.CoreV1().Secrets(x.namespace).Delete(ctx, "s", metav1.DeleteOptions{})
		})).To(BeNumerically(">=", 53))
	})
}
