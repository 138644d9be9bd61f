// Package guide_test has the controller of docs/from-controller-runtime.md, as
// one writes it with controller-runtime.
package guide_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrl "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/internal/apisim"
)

// region controller

type tokens struct{ client.Client }

func (t *tokens) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var account corev1.ServiceAccount
	if err := t.Get(ctx, r.NamespacedName, &account); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: account.Namespace, Name: account.Name + "-token",
	}}
	_, err := controllerutil.CreateOrUpdate(ctx, t.Client, token, func() error {
		token.Type = corev1.SecretTypeOpaque
		return controllerutil.SetControllerReference(&account, token, t.Scheme())
	})
	return ctrl.Result{}, err
}

func keepTokens(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		For(&corev1.ServiceAccount{}).
		Owns(&corev1.Secret{}).
		Complete(&tokens{m.GetClient()})
}

// endregion

func TestItKeepsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := apisim.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Load(&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		}); err != nil {
			t.Fatal(err)
		}
		mapper := testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme)
		m, err := manager.New(server.Config("program"), manager.Options{
			Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
			MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := keepTokens(m); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Start(ctx) }()

		secrets := kubernetes.NewForConfigOrDie(server.Admin()).CoreV1().Secrets("shop")
		for _, when := range []string{"at first", "after another client deleted it"} {
			<-time.After(time.Minute)
			if _, err := secrets.Get(ctx, "web-token", metav1.GetOptions{}); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			if err := secrets.Delete(ctx, "web-token", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
