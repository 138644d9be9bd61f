package zoo

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Models lists the models of bugs on record.
func Models() []Model {
	return []Model{
		{
			Name:   "cert-manager: an Issuer is not told of the Secret that its solver waits for",
			Record: "https://github.com/cert-manager/cert-manager/issues/9036",
			World:  issuing, Bug: issuer("account"), Fixed: issuer("account", "solver"), Found: "tail",
		},
		{
			Name:   "Envoy Gateway: updates of Secrets are filtered by a generation that Secrets do not have",
			Record: "https://github.com/envoyproxy/gateway/issues/3496",
			World:  serving, Bug: gateway(true), Fixed: gateway(false), Found: "tail",
		},
		{
			Name:   "DevWorkspace Operator: a change of a ConfigMap that it owns wakes nothing",
			Record: "https://github.com/devfile/devworkspace-operator/pull/584",
			World:  lone, Bug: workspace(false), Fixed: workspace(true), Found: "state",
		},
		{
			Name:   "Flux: the ConfigMaps with values are read, and not watched",
			Record: "https://github.com/fluxcd/flux2/issues/5446",
			World:  valued, Bug: valuing(false), Fixed: valuing(true), Found: "watch",
		},
		{
			Name:   "Elemental: a channel whose time has come makes and deletes its Pod forever",
			Record: "https://github.com/rancher/elemental-operator/pull/769",
			World:  channelled, Bug: channel(false), Fixed: channel(true), Found: "rest",
		},
	}
}

// referringApp returns an App that names another object in a field of its data.
func referringApp(field, name string) *corev1.ConfigMap {
	app := newApp("a")
	app.Data = map[string]string{field: name}
	return app
}

func secretOf(value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Data: map[string][]byte{"key": []byte(value)},
	}
}

// issuing returns the case of an Issuer whose Secret is created later.
func issuing() *reconciletest.Case {
	return &reconciletest.Case{
		Objects:  []runtime.Object{referringApp("solver", "s")},
		Workload: []reconciletest.Step{reconciletest.Create(secretOf("x"))},
	}
}

// issuer returns a program that reports whether the Secret of the Issuer's
// solver exists. A missing Secret is not an error, so no retry follows. A
// change of the Secret triggers the Issuers that name it in one of the fields.
func issuer(fields ...string) Program {
	return modelled(func(m *model) {
		secrets := m.caches.Core().V1().Secrets()
		m.feeds = []feed{m.apps(), {secrets.Informer(), m.referring(fields...)}}
		m.reconcile = func(ctx context.Context, name string) (time.Duration, error) {
			app := m.app(name)
			if app == nil {
				return 0, nil
			}
			value := "True"
			if _, err := secrets.Lister().Secrets(namespace).Get(app.Data["solver"]); err != nil {
				value = "False: InvalidSolver"
			}
			return 0, m.annotate(ctx, app, ready, value)
		}
	})
}

// serving returns the case of a Gateway with a certificate.
func serving() *reconciletest.Case {
	return &reconciletest.Case{Objects: []runtime.Object{referringApp("certificate", "s"), secretOf("x")}}
}

// gateway returns a program that serves the certificate of a Secret. If filters
// is set, it ignores each update that leaves the generation of the Secret
// unchanged.
func gateway(filters bool) Program {
	return modelled(func(m *model) {
		secrets := m.caches.Core().V1().Secrets()
		referring := m.referring("certificate")
		m.feeds = []feed{m.apps(), {secrets.Informer(), func(old, fresh metav1.Object) []string {
			if filters && old != nil && fresh != nil && old.GetGeneration() == fresh.GetGeneration() {
				return nil
			}
			return referring(old, fresh)
		}}}
		m.reconcile = func(ctx context.Context, name string) (time.Duration, error) {
			app := m.app(name)
			if app == nil {
				return 0, nil
			}
			s, err := secrets.Lister().Secrets(namespace).Get(app.Data["certificate"])
			if err != nil {
				return 0, m.annotate(ctx, app, "serves", "nothing")
			}
			return 0, m.annotate(ctx, app, "serves", string(s.Data["key"]))
		}
	})
}

// lone returns the case of one App.
func lone() *reconciletest.Case { return &reconciletest.Case{Objects: []runtime.Object{newApp("a")}} }

// workspace returns a program that keeps the ConfigMap with the metadata of a
// workspace. If owns is set, a change of that ConfigMap triggers the workspace.
func workspace(owns bool) Program {
	return modelled(func(m *model) {
		maps := m.caches.Core().V1().ConfigMaps()
		apps := m.apps()
		m.feeds = []feed{{maps.Informer(), func(old, fresh metav1.Object) []string {
			if owner := metav1.GetControllerOf(firstSet(old, fresh)); owner != nil && owns {
				return []string{owner.Name}
			}
			return apps.keys(old, fresh)
		}}}
		m.reconcile = func(ctx context.Context, name string) (time.Duration, error) {
			app := m.app(name)
			if app == nil {
				return 0, nil
			}
			want := &corev1.ConfigMap{
				ObjectMeta: newSecret(app, name+"-metadata").ObjectMeta, Data: map[string]string{"id": "7"},
			}
			current, err := maps.Lister().ConfigMaps(namespace).Get(want.Name)
			switch {
			case apierrors.IsNotFound(err):
				_, err = m.client.CoreV1().ConfigMaps(namespace).Create(ctx, want, metav1.CreateOptions{})
			case err == nil && current.Data["id"] != "7":
				edit := current.DeepCopy()
				edit.Data = want.Data
				_, err = m.client.CoreV1().ConfigMaps(namespace).Update(ctx, edit, metav1.UpdateOptions{})
			}
			if apierrors.IsAlreadyExists(err) { // the cache will show it
				err = nil
			}
			return 0, err
		}
	})
}

// valued returns the case of a release that takes its values from another
// object.
func valued() *reconciletest.Case {
	return &reconciletest.Case{Objects: []runtime.Object{
		referringApp("values", "v"),
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "v", Annotations: map[string]string{"size": "1"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		},
	}}
}

// interval is the time after which a release is reconciled again.
const interval = 10 * time.Minute

// valuing returns a program that applies the values in another object. In the
// model that object is a Service and not a ConfigMap, since Apps are
// ConfigMaps. If watches is set, a change of the values triggers the release.
func valuing(watches bool) Program {
	return modelled(func(m *model) {
		m.feeds = []feed{m.apps()}
		services := m.client.CoreV1().Services(namespace)
		read := func(ctx context.Context, name string) (*corev1.Service, error) {
			return services.Get(ctx, name, metav1.GetOptions{})
		}
		if watches {
			cached := m.caches.Core().V1().Services()
			m.feeds = append(m.feeds, feed{cached.Informer(), m.referring("values")})
			read = func(_ context.Context, name string) (*corev1.Service, error) {
				return cached.Lister().Services(namespace).Get(name)
			}
		}
		m.reconcile = func(ctx context.Context, name string) (time.Duration, error) {
			app := m.app(name)
			if app == nil {
				return 0, nil
			}
			values, err := read(ctx, app.Data["values"])
			if err != nil {
				return interval, m.annotate(ctx, app, "applied", "nothing")
			}
			return interval, m.annotate(ctx, app, "applied", values.Annotations["size"])
		}
	})
}

// lastSynced is the annotation with the time at which a channel was synced.
const lastSynced = "lastSyncTime"

// channelled returns the case of a channel that was synced long ago.
func channelled() *reconciletest.Case {
	app := newApp("a")
	app.Annotations = map[string]string{lastSynced: "1990-01-01T00:00:00Z"}
	return &reconciletest.Case{Objects: []runtime.Object{app}}
}

// channel returns a program that syncs once a day: it creates a syncer (in the
// model, a Secret), takes its result, and deletes it. If notes is set, the
// program records the time when it creates the syncer. Otherwise the recorded
// time stays the time of the first sync, so each sync is followed by another
// one at once.
func channel(notes bool) Program {
	return modelled(func(m *model) {
		secrets := m.caches.Core().V1().Secrets()
		m.feeds = []feed{m.apps(), {secrets.Informer(), func(old, fresh metav1.Object) []string {
			return []string{firstSet(old, fresh).GetLabels()[labelOf]}
		}}}
		m.reconcile = func(ctx context.Context, name string) (time.Duration, error) {
			app := m.app(name)
			if app == nil {
				return 0, nil
			}
			writes := m.client.CoreV1().Secrets(namespace)
			if s, err := secrets.Lister().Secrets(namespace).Get(name + "-sync"); err == nil {
				err := writes.Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))})
				return 0, err
			}
			synced, err := time.Parse(time.RFC3339, app.Annotations[lastSynced])
			if wait := day - time.Since(synced); err == nil && wait > 0 {
				return wait, nil
			}
			if notes {
				if err := m.annotate(ctx, app, lastSynced, time.Now().UTC().Format(time.RFC3339)); err != nil {
					return 0, err
				}
			}
			_, err = writes.Create(ctx, newSecret(app, name+"-sync"), metav1.CreateOptions{})
			return 0, err
		}
	})
}

const day = 24 * time.Hour
