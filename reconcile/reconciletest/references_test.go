package reconciletest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// chain is a program in which a parent names a ConfigMap, its profile, and that
// names a Secret. It copies the value of the Secret into the annotation copy of
// the parent. Its fields are mistakes.
type chain struct {
	hidden  bool // the functions do not return the Secret
	inCache bool // it reads a Secret that another parent names
	apart   bool // a goroutine of its own reads

	profiles *informer.References[*corev1.ConfigMap]
	secrets  *informer.References[*corev1.Secret]
}

func profileOf(p *corev1.ConfigMap) []reconcile.Key {
	return []reconcile.Key{{Namespace: p.Namespace, Name: p.Data["profile"]}}
}

// secretsOf follows the chain.
func (c *chain) secretsOf(p *corev1.ConfigMap) []reconcile.Key {
	profile, ok := c.profiles.Get(profileOf(p)[0])
	if !ok {
		return nil
	}
	return []reconcile.Key{{Namespace: p.Namespace, Name: profile.Data["secret"]}}
}

func (c *chain) run(env *reconciletest.Env) error {
	client := env.Client()
	parents := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "parent"})
	c.profiles = informer.Referenced(client.CoreV1().ConfigMaps, &informer.Options{Name: "profiles"})
	c.secrets = informer.Referenced(client.CoreV1().Secrets, nil)
	named := func(p *corev1.ConfigMap) []reconcile.Key {
		if c.hidden {
			return nil
		}
		return c.secretsOf(p)
	}
	copies := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		p, ok := r.Object()
		if !ok {
			return reconcile.Result{}, nil
		}
		value := c.read(p)
		if have, ok := p.Annotations["copy"]; ok == (value != "") && have == value {
			return reconcile.Result{}, nil
		}
		p = p.DeepCopy()
		delete(p.Annotations, "copy")
		if value != "" {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "copy", value)
		}
		_, err := client.CoreV1().ConfigMaps(p.Namespace).Update(ctx, p, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return reconcile.Result{}, err
	}
	controller, err := reconcile.New("chain", parents, reconcile.Func[*corev1.ConfigMap](copies), &reconcile.Options{
		Triggers: []reconcile.Trigger{reconcile.References(c.profiles, profileOf), reconcile.References(c.secrets, named)},
	})
	if err != nil {
		return err
	}
	return controller.Run(env.Context())
}

// read returns the value of the Secret of a parent, or "" if the Secret is not
// cached.
func (c *chain) read(p *corev1.ConfigMap) string {
	keys := c.secretsOf(p)
	if c.inCache {
		keys = []reconcile.Key{{Namespace: "d", Name: "b-secret"}}
	}
	value := ""
	for _, key := range keys {
		read := func() {
			if s, ok := c.secrets.Get(key); ok {
				value = string(s.Data["v"])
			}
		}
		if c.apart {
			done := make(chan struct{})
			go func() { read(); close(done) }()
			<-done
		} else {
			read()
		}
	}
	return value
}

// chained is the case of such a program: two parents with a chain each.
func chained(c *chain) *reconciletest.Case {
	var all []runtime.Object
	for _, name := range []string{"a", "b"} {
		parent := breeding.Parent(name)
		parent.Data = map[string]string{"profile": name + "-profile"}
		all = append(all, parent, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name + "-profile"},
			Data:       map[string]string{"secret": name + "-secret"},
		}, chainedSecret(name+"-secret", name))
	}
	return &reconciletest.Case{
		Objects: all, Run: c.run, Roles: []string{"testdata/chain.yaml"},
		Workload: []reconciletest.Step{
			reconciletest.Patch("configmaps", "d/a-profile", `{"data":{"secret":"late"}}`),
			reconciletest.Create(chainedSecret("late", "2")),
			reconciletest.Delete("configmaps", "d/b-profile"),
		},
	}
}

func chainedSecret(name, value string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Data: map[string][]byte{"v": []byte(value)},
	}
}

func TestAReadOfWhatIsNotNamedIsAFinding(t *testing.T) {
	for name, row := range map[string]struct {
		c    chain
		want string
	}{
		"nobody refers to it":         {chain{hidden: true}, "it reads Secret d/a-secret, but reconcile.References does not return it for ConfigMap d/a"},
		"another object refers to it": {chain{inCache: true}, "it reads Secret d/b-secret, but reconcile.References does not return it for ConfigMap d/a"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := chained(&row.c)
			r := reconciletest.Search(t, c, &reconciletest.Options{Seeds: 1, Budget: breeding.Budget})
			g.Expect(r.Failure).To(gomega.ContainSubstring(row.want))
			g.Expect([]string{r.Oracle, r.Reason}).To(gomega.Equal([]string{"watch", "unnamed"}))
			for range 2 {
				g.Expect(reconciletest.ReplayText(t, c, nil, r.Token)).To(gomega.Equal(r.Failure))
			}
		})
	}
}

// Reads by a goroutine that a reconcile has started are not judged.
func TestAReadInAGoroutineOfAReconcileIsNoFinding(t *testing.T) {
	_, found := reconciletest.TraceOf(t, chained(&chain{apart: true}), nil, "j1")
	gomega.NewWithT(t).Expect(found).To(gomega.BeEmpty())
}

// Stale, late and missing references are among the deviations: the list of each
// reference is slow, fails, and is delayed at a restart. Each event of it is
// late, and its object is edited, or deleted and created again.
func TestAChainOfReferencesSurvivesEveryFault(t *testing.T) {
	exhaustive(t)
	g := gomega.NewWithT(t)
	missing := map[string]bool{}
	for _, line := range []string{
		"HELD BACK call list secrets d/a-secret", "HELD BACK call list configmaps d/a-profile", "HELD BACK lists of secrets",
		"call list secrets d/a-secret <<< 500", "call watch secrets d/a-secret <<< 410",
		"HELD BACK deliver ADDED secrets d/late", "HELD BACK deliver MODIFIED configmaps d/a-profile",
		"others delete secrets d/a-secret", "others create Secret d/a-secret",
		`others patch secrets d/a-secret {"data":{"v":"ZWRpdGVk"}}`, "others delete configmaps d/a-profile",
	} {
		missing[line] = true
	}
	o := &reconciletest.Options{Seeds: 5, Budget: breeding.Budget}
	r := reconciletest.Traced(t, chained(&chain{}), o, func(lines []string) {
		for _, l := range lines {
			l, _, _ = strings.Cut(l, "   (")
			delete(missing, strings.Join(strings.Fields(l), " "))
		}
	})
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Covered()).To(gomega.BeTrue())
	g.Expect(missing).To(gomega.BeEmpty())
}

func TestRolesOfReferencesAreProposed(t *testing.T) {
	cluster, err := os.ReadFile("testdata/chain.yaml")
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	const all = "    resources: [secrets]\n    verbs: [list, watch]\n"
	for name, row := range map[string]struct {
		secrets  string // instead of the rule of secrets
		failure  []string
		narrower []string
	}{
		"all of the cluster": {all, nil, []string{
			"to list and watch secrets, Roles in the namespaces of the calls are enough (here d), " +
				"and they may be limited by resourceNames to the objects that are read",
		}},
		"by name": {"    resources: [secrets]\n    resourceNames: [a-secret, b-secret, late]\n    verbs: [list, watch]\n", nil, nil},
		"a name is missing": {"    resources: [secrets]\n    resourceNames: [b-secret, late]\n    verbs: [list, watch]\n", []string{
			"it may not list secrets d/a-secret: add to the rules of ClusterRole chain in ",
			`or, for this object alone, to a Role in namespace d`,
			`{apiGroups: [""], resources: ["secrets"], resourceNames: ["a-secret"], verbs: ["list"]}`,
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			file := filepath.Join(t.TempDir(), "rbac.yaml")
			text := strings.Replace(string(cluster), all, row.secrets, 1)
			g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(gomega.Succeed())
			c := chained(&chain{})
			c.Roles, c.Unwatched = []string{file}, []string{"configmaps"} // without edits of names
			r := reconciletest.Search(t, c, &reconciletest.Options{Seeds: 1, Budget: time.Nanosecond})
			for _, part := range row.failure {
				g.Expect(r.Failure).To(gomega.ContainSubstring(part))
			}
			if row.failure == nil {
				g.Expect(r.Failure).To(gomega.BeEmpty())
			}
			g.Expect(r.Narrower).To(gomega.Equal(row.narrower))
		})
	}
}
