// Package webhooks is an operator with a validating webhook, served by
// controller-runtime's webhook server in the same process.
package webhooks

import (
	"context"
	"flag"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// maxText is the longest text of a ConfigMap that is allowed, in bytes.
const maxText = 80

// Program returns the operator. Its main function calls
// os.Exit(webhooks.Program().Main(os.Args[1:], os.Stderr)).
func Program() operator.Program {
	var options webhook.Options
	return operator.Program{
		Name: "texts",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&options.Host, "webhook-host", "", "`address` that serves the webhooks; empty means all addresses")
			fs.IntVar(&options.Port, "webhook-port", webhook.DefaultPort, "`port` that serves the webhooks")
			fs.StringVar(&options.CertDir, "webhook-cert-dir", "/etc/webhook", "`folder` that contains tls.crt and tls.key")
		},
		Setup: setup,
		// Every replica answers, even if it does not lead. It answers until its
		// controllers have drained, because their last writes pass the webhook,
		// too.
		Beside: func(ctx context.Context, _ operator.Env) error { return serve(ctx, options) },
		// The Service of the webhook sends requests to Pods that are ready. If
		// the webhook converts objects, no cache can be filled before a Pod is
		// ready.
		ReadyWithoutCaches: true,
	}
}

// serve runs the webhook server, and answers the API server until ctx ends.
func serve(ctx context.Context, options webhook.Options) error {
	server := webhook.NewServer(options)
	server.Register("/validate-configmap", admission.WithValidator(scheme.Scheme, validator{}))
	return server.Start(ctx)
}

type validator struct{}

func (validator) ValidateCreate(_ context.Context, m *corev1.ConfigMap) (admission.Warnings, error) {
	if n := len(m.Data["text"]); n > maxText {
		return nil, fmt.Errorf("the text has %d bytes: must not be longer than %d", n, maxText)
	}
	return nil, nil
}

func (v validator) ValidateUpdate(ctx context.Context, _, m *corev1.ConfigMap) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, m)
}

func (validator) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

// setup returns the controller that labels ConfigMaps with a text.
func setup(env operator.Env) ([]*reconcile.Controller, error) {
	maps := env.Cluster.Client().CoreV1().ConfigMaps
	c, err := reconcile.New("texts", informer.For(maps(""), nil), reconcile.Func[*corev1.ConfigMap](
		func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			m, ok := r.Object()
			if !ok || m.Data["text"] == "" {
				return reconcile.Result{}, nil
			}
			_, err := patch.Merge(ctx, maps, m, nil, func(m *corev1.ConfigMap) {
				metav1.SetMetaDataLabel(&m.ObjectMeta, "example.com/has-text", "true")
			})
			return reconcile.Result{}, err
		}), env.Options())
	return []*reconcile.Controller{c}, err
}
