package zoo_test

// The code of docs/testing.md: a test at the root holds the two against each
// other.

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/proof/zoo"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/fakes"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
)

type makeKey = func(ctx context.Context, client kubernetes.Interface, app *corev1.ConfigMap) error

// keys gives every ConfigMap with the label app a Secret.
func keys(ctx context.Context, client kubernetes.Interface, make makeKey) error {
	apps := informer.For(client.CoreV1().ConfigMaps("default"), &informer.Options{LabelSelector: "app"})
	secrets := informer.For(client.CoreV1().Secrets("default"), nil)
	one := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		app, ok := r.Object()
		if !ok {
			return reconcile.Result{}, nil
		}
		for s := range secrets.Snapshot().All() {
			if metav1.IsControlledBy(s, app) {
				return reconcile.Result{}, nil
			}
		}
		return reconcile.Result{}, make(ctx, client, app)
	}
	c, err := reconcile.New("keys", apps, reconcile.Func[*corev1.ConfigMap](one),
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(secrets)}})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

func owner(app *corev1.ConfigMap) []metav1.OwnerReference {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	return []metav1.OwnerReference{*metav1.NewControllerRef(app, kind)}
}

func generateKey(ctx context.Context, client kubernetes.Interface, app *corev1.ConfigMap) error {
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: app.Namespace, GenerateName: app.Name + "-", OwnerReferences: owner(app),
	}}
	_, err := client.CoreV1().Secrets(app.Namespace).Create(ctx, key, metav1.CreateOptions{})
	return err
}

func ensureKey(ctx context.Context, client kubernetes.Interface, app *corev1.ConfigMap) error {
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-key"}}
	_, err := patch.Ensure(ctx, client.CoreV1().Secrets, key, nil, func(key *corev1.Secret) {
		key.OwnerReferences = owner(app)
	})
	return err
}

func newApp() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "shop", Labels: map[string]string{"app": "yes"},
	}}
}

func TestKeyOnAFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newApp())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- keys(ctx, client, generateKey) }()
		<-time.After(time.Minute) // of virtual time: it takes none

		all, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(all.Items) != 1 {
			t.Errorf("%d keys, %v: want one", len(all.Items), err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestKeyOnAFaithfulFake(t *testing.T) {
	client := fake.NewClientset(newApp())
	if err := fakes.Faithful(client); err != nil {
		t.Fatal(err)
	}
	app, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second try, as after a timeout
		if err := ensureKey(t.Context(), client, app); err != nil {
			t.Fatal(err)
		}
	}
	all, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 {
		t.Errorf("%d keys, %v: want one", len(all.Items), err)
	}
}

func shop(make makeKey) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{newApp()},
		Run: func(env *reconciletest.Env) error {
			return keys(env.Context(), env.Client(), make)
		},
		Workload: []reconciletest.Step{
			reconciletest.Patch("configmaps", "default/shop", `{"data":{"size":"7"}}`),
			reconciletest.Delete("configmaps", "default/shop"),
		},
	}
}

func TestKeySurvives(t *testing.T) {
	reconciletest.Explore(t, shop(ensureKey), nil)
}

// keySurvivesHere takes a cluster that is there for tests.
func keySurvivesHere(t *testing.T, config *rest.Config) {
	t.Helper()
	live.Smoke(t, shop(ensureKey), config, nil)
}

// The document shows how a failure looks: the deviation, the finding and the
// hint. The trace in between may change.
func TestDocumentShowsTheFailure(t *testing.T) {
	r := reconciletest.Search(t, shop(generateKey), &reconciletest.Options{Budget: toFind})
	shown, failure := document(t), strings.TrimSpace(r.Failure)
	lines := strings.Split(failure, "\n")
	for _, line := range []string{lines[0], lines[1], lines[len(lines)-1]} {
		if !strings.Contains(shown, line) {
			t.Errorf("docs/testing.md has no line %q. Show this there:\n%s", line, failure)
		}
	}
}

// The document lists the whole zoo.
func TestDocumentListsTheZoo(t *testing.T) {
	shown := document(t)
	for _, s := range zoo.Catalogue() {
		if row := row(&s); !strings.Contains(shown, row) {
			t.Errorf("docs/testing.md has no row that begins with %s", row)
		}
	}
}

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
