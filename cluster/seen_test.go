package cluster_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

var (
	coreSecrets  = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	otherSecrets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "secrets"}
)

// lost is a transport that passes on requests of one method, and loses the
// first answer.
type lost struct {
	http.RoundTripper
	method string
	done   bool
}

func (l *lost) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(req)
	if req.Method != l.method || l.done || err != nil || !strings.Contains(req.URL.Path, "/secrets") {
		return res, err
	}
	l.done = true
	_ = res.Body.Close()
	return nil, context.DeadlineExceeded
}

// seenCase is a reconciler that acts if its late cache shows that it has not
// acted yet.
type seenCase struct {
	options *informer.Options
	prepare func(x *fixture)
	wrap    func(http.RoundTripper) http.RoundTripper
	// todo reports whether the cache shows that act must be called.
	todo func(in *informer.Informer[*corev1.Secret]) bool
	act  func(ctx context.Context, x *fixture) error
}

func hasNone(in *informer.Informer[*corev1.Secret]) bool { return in.Snapshot().Len() == 0 }
func hasSome(in *informer.Informer[*corev1.Secret]) bool { return in.Snapshot().Len() > 0 }

func existing(x *fixture) { x.createSecret("s", map[string]string{"todo": "yes"}) }

const mergeDone = `{"metadata":{"labels":{"todo":"no"}}}`

var seenCases = map[string]seenCase{
	"a create of a generated client": {todo: hasNone, act: func(ctx context.Context, x *fixture) error {
		_, err := x.generated.CoreV1().Secrets(x.namespace).Create(ctx,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
		return err
	}},
	"a create of a dynamic client": {todo: hasNone, act: func(ctx context.Context, x *fixture) error {
		_, err := x.dynamic.Resource(coreSecrets).Namespace(x.namespace).Create(ctx, &unstructured.Unstructured{
			Object: map[string]any{"kind": "Secret", "apiVersion": "v1", "metadata": map[string]any{"generateName": "s-"}},
		}, metav1.CreateOptions{})
		return err
	}},
	"a patch of a metadata client": {
		prepare: existing, options: &informer.Options{LabelSelector: "todo=yes"}, todo: hasSome,
		act: func(ctx context.Context, x *fixture) error {
			_, err := x.metadata.Resource(coreSecrets).Namespace(x.namespace).Patch(ctx, "s", types.MergePatchType,
				[]byte(mergeDone), metav1.PatchOptions{})
			return err
		},
	},
	"a server-side apply after which the object leaves the selector": {
		prepare: existing, options: &informer.Options{LabelSelector: "todo=yes"}, todo: hasSome,
		act: func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Apply(ctx,
				applycorev1.Secret("s", x.namespace).WithLabels(map[string]string{"todo": "no"}),
				metav1.ApplyOptions{FieldManager: "test", Force: true})
			return err
		},
	},
	"a delete": {prepare: existing, todo: hasSome, act: func(ctx context.Context, x *fixture) error {
		return x.generated.CoreV1().Secrets(x.namespace).Delete(ctx, "s", metav1.DeleteOptions{})
	}},
	"a delete of a collection": {prepare: existing, todo: hasSome, act: func(ctx context.Context, x *fixture) error {
		return x.generated.CoreV1().Secrets(x.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}},
	"a create whose answer is lost": {
		todo: hasNone,
		wrap: func(next http.RoundTripper) http.RoundTripper {
			return &lost{RoundTripper: next, method: http.MethodPost}
		},
		act: func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Create(ctx,
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
			return err
		},
	},
	"a patch whose answer is lost": {
		prepare: existing, options: &informer.Options{LabelSelector: "todo=yes"}, todo: hasSome,
		wrap: func(next http.RoundTripper) http.RoundTripper {
			return &lost{RoundTripper: next, method: http.MethodPatch}
		},
		act: func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Patch(ctx, "s", types.MergePatchType, []byte(mergeDone),
				metav1.PatchOptions{})
			return err
		},
	},
	"a removal of the last finalizer": {
		prepare: func(x *fixture) {
			secrets := x.admin.CoreV1().Secrets(x.namespace)
			_, err := secrets.Create(x.t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "s", Finalizers: []string{"example.com/a"}},
			}, metav1.CreateOptions{})
			x.Expect(err).NotTo(HaveOccurred())
			x.Expect(secrets.Delete(x.t.Context(), "s", metav1.DeleteOptions{})).To(Succeed())
		},
		todo: hasSome,
		act: func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Patch(ctx, "s", types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":[]}}`), metav1.PatchOptions{})
			return err
		},
	},
}

// Each case acts once, because the next reconcile waits for the cache. With the
// same clients made from the plain config, it acts repeatedly.
func TestEveryWriteIsSeen(t *testing.T) {
	for name, c := range seenCases {
		for _, plain := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: ", plain"}[plain], func(t *testing.T) {
				inFixture(t, plain, c.wrap, func(x *fixture) {
					if c.prepare != nil {
						c.prepare(x)
					}
					in := x.secrets(c.options)
					acts := 0
					x.run(&reconcile.Options{Triggers: ofSecrets(in)}, func(ctx context.Context) error {
						if !c.todo(in) {
							return nil
						}
						acts++
						return c.act(ctx, x)
					})
					if plain {
						x.Expect(acts).To(BeNumerically(">", 1), "this is what the package is for")
					} else {
						x.Expect(acts).To(Equal(1))
					}
				})
			})
		}
	}
}

// The cache has not seen the Secret that is deleted. If the next reconcile did
// not wait, the cache would show the Secret for a while.
func TestADeleteOfWhatTheCacheHasNotSeenIsWaitedFor(t *testing.T) {
	for _, plain := range []bool{false, true} {
		inFixture(t, plain, nil, func(x *fixture) {
			in := x.secrets(nil)
			deleted := false
			x.run(&reconcile.Options{Triggers: ofSecrets(in)}, func(ctx context.Context) error {
				if deleted {
					x.note("%d", in.Snapshot().Len())
					return nil
				}
				deleted = true
				x.createSecret("s", nil)
				<-time.After(2 * time.Second) // the cache would show it for that long
				return x.generated.CoreV1().Secrets(x.namespace).Delete(ctx, "s", metav1.DeleteOptions{})
			})
			if plain {
				x.Expect(x.runs).To(ContainElement("1"), "this is what the package is for")
			} else {
				x.Expect(x.runs).To(HaveEach("0"))
			}
		})
	}
}

// reconciles returns the number of reconciles in a minute after a first one
// that calls act. There are about 60 if the key does not wait for the write,
// and fewer if it does.
func reconciles(x *fixture, in *informer.Informer[*corev1.Secret], act func(ctx context.Context) error) int {
	n := 0
	x.run(&reconcile.Options{Triggers: ofSecrets(in)}, func(ctx context.Context) error {
		if n++; n == 1 {
			return act(ctx)
		}
		return nil
	})
	return n
}

func TestAWriteThatNoCacheShowsDelaysNoKey(t *testing.T) {
	secret := func(name string) *corev1.Secret { return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	for name, act := range map[string]func(ctx context.Context, x *fixture) error{
		"a kind of the same name in another group": func(ctx context.Context, x *fixture) error {
			_, err := x.dynamic.Resource(otherSecrets).Namespace(x.namespace).Create(ctx, &unstructured.Unstructured{
				Object: map[string]any{"kind": "Secret", "apiVersion": "example.com/v1", "metadata": map[string]any{"name": "s"}},
			}, metav1.CreateOptions{})
			return err
		},
		"another namespace": func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets("e").Create(ctx, secret("s"), metav1.CreateOptions{})
			return err
		},
		"outside the selector": func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Create(ctx, secret("s"), metav1.CreateOptions{})
			return err
		},
		"a dry run": func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"todo": "yes"}},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		},
		"a dry run of a delete": func(ctx context.Context, x *fixture) error {
			return x.generated.CoreV1().Secrets(x.namespace).Delete(ctx, "there", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		},
		"a write that is refused": func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Create(ctx, secret("there"), metav1.CreateOptions{})
			x.Expect(err).To(HaveOccurred())
			return nil
		},
		"a change that changes nothing": func(ctx context.Context, x *fixture) error {
			_, err := x.generated.CoreV1().Secrets(x.namespace).Patch(ctx, "there", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"todo":"yes"}}}`), metav1.PatchOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, false, nil, func(x *fixture) {
				x.createSecret("there", map[string]string{"todo": "yes"})
				in := x.secrets(&informer.Options{LabelSelector: "todo=yes"})
				x.Expect(reconciles(x, in, func(ctx context.Context) error { return act(ctx, x) })).To(BeNumerically(">=", 59))
			})
		})
	}
}

func TestAnEvictionIsADeleteOfThePod(t *testing.T) {
	for _, plain := range []bool{false, true} {
		inFixture(t, plain, nil, func(x *fixture) {
			_, err := x.admin.CoreV1().Pods("d").Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}, metav1.CreateOptions{})
			x.Expect(err).NotTo(HaveOccurred())
			in := informer.For(latePods{x.generated.CoreV1().Pods("d")}, nil)
			evictions := 0
			x.run(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(in)}}, func(ctx context.Context) error {
				if p, ok := in.Get(types.NamespacedName{Namespace: "d", Name: "p"}); !ok || p.DeletionTimestamp != nil {
					return nil
				}
				evictions++
				err := x.generated.PolicyV1().Evictions("d").Evict(ctx,
					&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"}})
				if evictions > 1 {
					err = nil // not found
				}
				return err
			})
			if plain {
				x.Expect(evictions).To(BeNumerically(">", 1), "this is what the package is for")
			} else {
				x.Expect(evictions).To(Equal(1))
			}
		})
	}
}
