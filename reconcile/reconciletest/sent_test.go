package reconciletest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// webs keeps a Deployment and a Service for each parent, without setting the
// number of replicas or the type.
type webs struct {
	env         *reconciletest.Env
	deployments *informer.Informer[*appsv1.Deployment]
	services    *informer.Informer[*corev1.Service]
	whole       bool   // it replaces the whole spec
	affinity    string // that it clears, where it is
}

func (s *webs) run(env *reconciletest.Env) error {
	s.env = env
	s.deployments = informer.For(env.Client().AppsV1().Deployments(""), nil)
	s.services = informer.For(env.Client().CoreV1().Services(""), nil)
	c, err := reconcile.New("webs", breeding.Parents(env.Client()), s, &reconcile.Options{
		Triggers: []reconcile.Trigger{reconcile.Owned(s.deployments), reconcile.Owned(s.services)},
	})
	if err != nil {
		return err
	}
	return c.Run(env.Context())
}

// Reconcile writes objects that differ from the desired state.
func (s *webs) Reconcile(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
	p, ok := r.Object()
	if !ok || p.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	m, apps := breeding.Child(p).ObjectMeta, map[string]string{"app": p.Name}
	d, found := s.deployments.Get(r.Key)
	if !found {
		d = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	}
	_, err := patch.Ensure(ctx, s.env.Client().AppsV1().Deployments, d, nil, func(edit *appsv1.Deployment) {
		edit.OwnerReferences = m.OwnerReferences
		edit.Spec.Selector = &metav1.LabelSelector{MatchLabels: apps}
		edit.Spec.Template.Labels = apps
		edit.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	})
	if err == nil {
		err = s.serve(ctx, p, m, corev1.ServiceSpec{Selector: apps, Ports: []corev1.ServicePort{{Port: 80}}})
	}
	return reconcile.Result{}, err
}

func (s *webs) serve(ctx context.Context, p *corev1.ConfigMap, m metav1.ObjectMeta, spec corev1.ServiceSpec) error {
	of := s.env.Client().CoreV1().Services
	have, found := s.services.Get(reconcile.Key{Namespace: p.Namespace, Name: p.Name})
	if !found {
		have = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	}
	if found && s.whole && (have.Spec.Selector["app"] != p.Name || have.Spec.SessionAffinity != "") {
		fresh := have.DeepCopy()
		fresh.Spec = spec
		_, err := of(p.Namespace).Update(ctx, fresh, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // another event follows
		}
		return err
	}
	_, err := patch.Ensure(ctx, of, have, nil, func(edit *corev1.Service) {
		edit.OwnerReferences, edit.Spec.Selector, edit.Spec.Ports = m.OwnerReferences, spec.Selector, spec.Ports
		if string(edit.Spec.SessionAffinity) == s.affinity {
			edit.Spec.SessionAffinity = ""
		}
	})
	return err
}

func ofWebs(s *webs) *reconciletest.Case {
	c := breeding.Case(nil)
	c.Run, c.Workload, c.Goal = s.run, nil, nil
	return c
}

// A controller that sets only its own fields, and leaves the rest to the server
// and to others, is not accused. It is if it clears a field that it never sets,
// also by an update that replaces the spec as a whole.
func TestWhatOnlyTheServerFilledInIsNotTheProgramsFault(t *testing.T) {
	exhaustive(t)
	for name, row := range map[string]struct {
		program webs
		want    string
	}{
		"it sets what it is about":     {},
		"it replaces the whole spec":   {webs{whole: true}, "services d/a: spec.sessionAffinity"},
		"it clears what it never sets": {webs{affinity: "ClientIP"}, "services d/a: spec.sessionAffinity"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			o := &reconciletest.Options{Budget: breeding.Budget, Seeds: 1}
			r := reconciletest.Search(t, ofWebs(&row.program), o)
			if row.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				return
			}
			g.Expect(r.Failure).To(gomega.ContainSubstring(row.want))
		})
	}
}

// Each output is edited where the program has written, and both kinds get a
// foreign field where it has not.
func TestOutputsAreEditedWhereTheProgramHasWritten(t *testing.T) {
	g := gomega.NewWithT(t)
	others := ""
	for _, token := range []string{"e1", "e2", "m1", "m2"} {
		lines, found := reconciletest.TraceOf(t, ofWebs(&webs{}), nil, token)
		g.Expect(found).To(gomega.BeEmpty(), token)
		others += strings.Join(lines, "\n")
	}
	for _, part := range []string{
		`services d/a {"spec":{"selector":{"app":"a-edited"}}}`, `deployments.apps d/a {"spec":{"selector":{"matchLabels":{"app":"a-edited"}}}}`,
		`"reconciletest/rival":"yes"}},"spec":{"sessionAffinity":"ClientIP"}}`,
		`"reconciletest/rival":"yes"}},"spec":{"revisionHistoryLimit":7}}`,
	} {
		g.Expect(others).To(gomega.ContainSubstring(part))
	}
}

// kept makes a Secret without content, and gives it its content in a write of
// its own.
func kept(kind types.PatchType, body string) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		have := b.ChildrenOf(p)
		if len(have) == 0 {
			return b.Create(ctx, breeding.Child(p))
		}
		if string(have[0].Data["key"]) == "value" {
			return nil
		}
		secrets, err := b.Client.CoreV1().Secrets(p.Namespace), error(nil)
		if kind == "" {
			edit := have[0].DeepCopy()
			edit.StringData = map[string]string{"key": "value"}
			_, err = secrets.Update(ctx, edit, metav1.UpdateOptions{})
		} else {
			force := kind == types.ApplyPatchType
			o := metav1.PatchOptions{Force: &force, FieldManager: "kept"}
			if !force {
				o.Force = nil
			}
			_, err = secrets.Patch(ctx, have[0].Name, kind, []byte(body), o)
		}
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // another event follows
		}
		return err
	}
}

// A value that the program has sent is edited, even if it was sent in a later
// write.
func TestAValueThatIsSentLaterIsEditedToo(t *testing.T) {
	for name, breed := range map[string]breeding.Breed{
		"update":          kept("", ""),
		"merge patch":     kept(types.MergePatchType, `{"data":{"key":"dmFsdWU="}}`),
		"strategic patch": kept(types.StrategicMergePatchType, `{"stringData":{"key":"value"}}`),
		"JSON patch":      kept(types.JSONPatchType, `[{"op":"add","path":"/data","value":{"key":"dmFsdWU="}}]`),
		"apply": kept(types.ApplyPatchType, fmt.Sprint("apiVersion: v1\nkind: Secret\n",
			"data: {key: dmFsdWU=}\n")),
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(breed)
			c.Workload, c.Goal = nil, nil
			lines, found := reconciletest.TraceOf(t, c, nil, "e1")
			g.Expect(found).To(gomega.BeEmpty())
			g.Expect(lines).To(gomega.ContainElement(`others    patch secrets d/a-child {"data":{"key":"ZWRpdGVk"}}`))
		})
	}
}
