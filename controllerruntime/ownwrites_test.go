package controllerruntime_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/controllerruntime"
	"github.com/homeostat/homeostat/internal/apisim"
)

// writing calls steps as reconciles of one key, on a cache to which watches
// deliver everything a second late.
func writing(t *testing.T, steps ...func(f *writer)) {
	t.Helper()
	writingLate(t, time.Second, steps...)
}

// writingLate is writing with watches that are later.
func writingLate(t *testing.T, late time.Duration, steps ...func(f *writer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &writer{WithT: NewWithT(t)}
		sim, err := apisim.New(nil)
		f.Expect(err).NotTo(HaveOccurred())
		config := controllerruntime.ObserveWrites(sim.Config("manager"))
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				res, err := next.RoundTrip(req)
				if err == nil && req.URL.Query().Get("watch") != "" {
					res.Body = lateBody{res.Body, late}
				}
				if err == nil && f.loses && req.Method == http.MethodPut {
					_ = res.Body.Close()
					return nil, context.DeadlineExceeded
				}
				return res, err
			})
		})
		mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		f.cluster, err = cluster.New(config, func(o *cluster.Options) {
			o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
		})
		f.Expect(err).NotTo(HaveOccurred())
		var step func(f *writer)
		inner := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			f.ctx = ctx
			step(f)
			return reconcile.Result{RequeueAfter: 7}, nil
		})
		r, err := controllerruntime.SeeOwnWrites(t.Context(), f.cluster, inner, &corev1.Secret{})
		f.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.cluster.Start(ctx) }()
		f.Expect(f.cluster.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
		for _, step = range steps {
			began := time.Now()
			f.Expect(r.Reconcile(ctx, reconcile.Request{})).To(Equal(reconcile.Result{RequeueAfter: 7}))
			f.took = time.Since(began)
		}
		cancel()
		f.Expect(<-ended).To(Succeed())
		<-time.After(time.Minute)
	})
}

// writer has the clients and the results that a step of writing uses.
type writer struct {
	*WithT

	ctx     context.Context //nolint:containedctx // of the reconcile
	cluster cluster.Cluster
	took    time.Duration // the reconcile before
	loses   bool          // answers to updates
}

func (f *writer) text() string {
	var s corev1.Secret
	switch err := f.cluster.GetClient().Get(f.ctx, key("a"), &s); {
	case err != nil && client.IgnoreNotFound(err) == nil:
		return "not found"
	case err != nil:
		return err.Error()
	}
	return string(s.Data["text"])
}

func create(f *writer) { f.Expect(f.cluster.GetClient().Create(f.ctx, secret("a", "1"))).To(Succeed()) }

func TestTheNextReconcileSeesOwnWrites(t *testing.T) {
	writing(t, create,
		func(f *writer) {
			f.Expect(f.text()).To(Equal("1"))
			f.Expect(f.took).To(BeNumerically("<", 10*time.Second))
			f.Expect(f.cluster.GetClient().Update(f.ctx, secret("a", "2"))).To(Succeed())
			f.Expect(f.text()).To(Equal("1"), "within the reconcile the cache is late")
		},
		func(f *writer) {
			f.Expect(f.text()).To(Equal("2"))
			f.Expect(f.cluster.GetClient().Delete(f.ctx, secret("a", ""))).To(Succeed())
		},
		func(f *writer) {
			f.Expect(f.text()).To(Equal("not found"))
			generated := secret("", "3")
			generated.GenerateName = "b-"
			f.Expect(f.cluster.GetClient().Create(f.ctx, generated)).To(Succeed())
		},
		func(f *writer) {
			var list corev1.SecretList
			f.Expect(f.cluster.GetClient().List(f.ctx, &list)).To(Succeed())
			f.Expect(list.Items).To(HaveLen(1))
		})
}

func TestACreationThatIsUndoneDoesNotHoldTheKey(t *testing.T) {
	writing(t, func(f *writer) {
		create(f)
		f.Expect(f.cluster.GetClient().Delete(f.ctx, secret("a", ""))).To(Succeed())
	}, func(f *writer) {
		f.Expect(f.text()).To(Equal("not found"))
		f.Expect(f.took).To(BeNumerically("<=", 10*time.Second))
	})
}

func TestAWriteWithoutAnAnswerIsAskedFor(t *testing.T) {
	writing(t, create, func(f *writer) {
		f.loses = true
		f.Expect(f.cluster.GetClient().Update(f.ctx, secret("a", "2"))).NotTo(Succeed())
		f.loses = false
	}, func(f *writer) {
		f.Expect(f.text()).To(Equal("2"))
	})
}

func TestOtherWritesHoldNothing(t *testing.T) {
	writing(t, func(f *writer) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}}
		f.Expect(f.cluster.GetClient().Create(f.ctx, m)).To(Succeed())
		f.Expect(f.cluster.GetClient().Update(f.ctx, secret("none", ""))).NotTo(Succeed())
		f.Expect(f.cluster.GetClient().Create(f.ctx, secret("a", "1"), client.DryRunAll)).To(Succeed())
	}, func(f *writer) {
		f.Expect(f.took).To(BeZero())
	})
}

func TestAHoldEndsInTime(t *testing.T) {
	writingLate(t, 20*time.Second, create, func(f *writer) {
		f.Expect(f.took).To(Equal(10 * time.Second))
		f.Expect(f.text()).To(Equal("not found"), "the watch is still late")
	})
}

func TestAConfigThatReportsNoWritesIsRefused(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	c, err := cluster.New(sim.Config("manager"), func(o *cluster.Options) {
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return meta.NewDefaultRESTMapper(nil), nil
		}
	})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = controllerruntime.SeeOwnWrites(t.Context(), c, reconcile.Reconciler(nil))
	g.Expect(err).To(MatchError(ContainSubstring("ObserveWrites")))
}
