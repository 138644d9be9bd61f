package references

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/requests"
)

func TestOnlyADeletionAtTheSameResourceVersionIsNews(t *testing.T) {
	g := NewWithT(t)
	for rv, past := range map[string]bool{"8": true, "9": true, "10": false} {
		g.Expect(isPast(watch.Modified, rv, "9")).To(Equal(past), rv)
	}
	for rv, past := range map[string]bool{"8": true, "9": false, "10": false} {
		g.Expect(isPast(watch.Deleted, rv, "9")).To(Equal(past), rv)
	}
	g.Expect(isPast(watch.Modified, "8", "not a number")).To(BeFalse(), "it cannot be compared")
}

func TestARefusalLastsUntilAPersonChangesSomething(t *testing.T) {
	g := NewWithT(t)
	secrets := schema.GroupResource{Resource: "secrets"}
	for _, err := range []error{
		apierrors.NewForbidden(secrets, "a", nil), apierrors.NewNotFound(secrets, ""),
		errors.New("json: cannot unmarshal string into Go struct field"),
	} {
		g.Expect(isRefusal(err)).To(BeTrue(), err.Error())
	}
	for _, err := range []error{
		apierrors.NewTooManyRequests("later", 1), requests.ErrNoAnswer, errWatchEnd,
		apierrors.NewInternalError(errors.New("decoding failed in etcd")),
	} {
		g.Expect(isRefusal(err)).To(BeFalse(), err.Error())
	}
}

// idle is a cache that does not call its handlers.
type idle struct{ forgotten []types.NamespacedName }

func (*idle) Kind() string                      { return "Secret" }
func (*idle) Connect(string) Connection         { return Connection{} }
func (*idle) Begin(context.Context) logr.Logger { return logr.Discard() }
func (*idle) End(context.Context) error         { return nil }
func (*idle) Clear()                            {}
func (*idle) OnDelivered(done func())           { done() }
func (c *idle) Forget(key types.NamespacedName) { c.forgotten = append(c.forgotten, key) }
func (*idle) options(scope meta.RESTScopeName) Options {
	return Options{WatchNamespaceAbove: 2, Scope: scope, Counters: &requests.Counters{}}
}

// The shared watch of a namespace begins above the limit, and is not needed any
// longer at half of it.
func TestANamespaceIsWatchedWhileItHasManyReferences(t *testing.T) {
	g := NewWithT(t)
	c := &idle{}
	r := New(c, c.options(""))
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "d", Name: name} }
	needed := func() bool { s := r.sources["d"].shared; return s != nil && s.holds > 0 }
	r.Hold(key("a"))
	r.Hold(key("b"))
	g.Expect(needed()).To(BeFalse())
	r.Hold(key("c"))
	g.Expect(needed()).To(BeTrue())
	r.Release(key("c"))
	g.Expect(needed()).To(BeTrue(), "two are more than half of the limit")
	r.Release(key("b"))
	g.Expect(needed()).To(BeFalse())
	r.Release(key("a"))
	g.Expect(r.sources).To(BeEmpty())
	g.Expect(c.forgotten).To(Equal([]types.NamespacedName{key("c"), key("b"), key("a")}))
}

func TestAKeyMustFitTheScopeOfTheKind(t *testing.T) {
	g := NewWithT(t)
	c := &idle{}
	inNamespace, cluster := types.NamespacedName{Namespace: "d", Name: "a"}, types.NamespacedName{Name: "a"}
	for scope, want := range map[meta.RESTScopeName][2]string{
		meta.RESTScopeNameNamespace: {"", `Secret "a" has no namespace, but its kind is namespaced`},
		meta.RESTScopeNameRoot:      {`Secret "d/a" has a namespace, but its kind is cluster-scoped`, ""},
		"":                          {"", ""},
	} {
		r := New(c, c.options(scope))
		for n, key := range []types.NamespacedName{inNamespace, cluster} {
			r.Hold(key)
			if want[n] == "" {
				g.Expect(r.refs[key].wrong).NotTo(HaveOccurred())
			} else {
				g.Expect(r.refs[key].wrong).To(MatchError(want[n]))
			}
		}
	}
}

func TestTheLaterTimeIsLater(t *testing.T) {
	g := NewWithT(t)
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	g.Expect(latest(first, second)).To(Equal(second))
	g.Expect(latest(second, first)).To(Equal(second))
}
