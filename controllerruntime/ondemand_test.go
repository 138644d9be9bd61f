package controllerruntime_test

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/controllerruntime"
)

// watching returns the requests that begin the watch of one object.
func watching(name string) []string {
	const secrets = "/api/v1/namespaces/shop/secrets"
	return []string{"GET " + secrets + " metadata.name=" + name, "WATCH " + secrets + " metadata.name=" + name}
}

func TestTheFirstGetReadsAndWatchesOneObject(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		f.create(secret("a", "1"))
		f.create(secret("b", "2"))
		f.Expect(f.sent()).To(BeEmpty())
		f.Expect(f.text("a")).To(Equal("1"))
		f.Expect(f.sent()).To(Equal(watching("a")))
		f.update(secret("a", "3"))
		f.Expect(f.text("a")).To(Equal("3"))
	})
}

func TestWhatWasReadIsAnsweredFromMemory(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		f.create(secret("a", "1"))
		f.Expect(f.text("a")).To(Equal("1"))
		f.sent()
		for range 10 {
			f.Expect(f.text("a")).To(Equal("1"))
		}
		f.Expect(f.sent()).To(BeEmpty())
	})
}

func TestOnlyListAndWatchByNameAreSent(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		h := f.watch()
		f.create(secret("a", "1"))
		f.Expect(f.text("a")).To(Equal("1"))
		f.Expect(f.text("none")).To(Equal("not found"))
		f.Expect(h.take()).To(Equal([]string{"added a=1"}))
		f.Expect(f.sent()).To(ConsistOf(append(watching("a"), watching("none")...)))
	})
}

func TestAnAbsentObjectIsWatched(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		h := f.watch()
		f.Expect(f.text("a")).To(Equal("not found"))
		f.create(secret("a", "1"))
		f.Expect(h.take()).To(Equal([]string{"added a=1"}))
		f.Expect(f.text("a")).To(Equal("1"))
		f.sent()
	})
}

func TestAForbiddenObjectIsAnErrorOfItsOwn(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		f.create(secret("a", "1"))
		f.create(secret("b", "2"))
		f.deny("a")
		f.Expect(f.text("a")).To(Equal("forbidden"))
		f.Expect(f.text("b")).To(Equal("2"))
		f.deny("")
		<-time.After(time.Minute)
		f.Expect(f.text("a")).To(Equal("1"))
	})
}

func TestAnUnreadObjectIsDropped(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		f.create(secret("a", "1"))
		f.Expect(f.text("a")).To(Equal("1"))
		<-time.After(9 * time.Minute)
		f.Expect(f.text("a")).To(Equal("1"))
		f.Expect(objects(f)).To(Equal(1))
		<-time.After(9 * time.Minute)
		f.Expect(objects(f)).To(Equal(1), "it was read nine minutes ago")
		<-time.After(4 * time.Minute)
		f.Expect(objects(f)).To(BeZero())
		f.sent()
		f.Expect(f.text("a")).To(Equal("1"), "it is read again")
		f.Expect(f.sent()).To(Equal(watching("a")))
	})
}

// objects returns how many objects are cached on demand.
func objects(f *fixture) (n int) {
	for _, s := range controllerruntime.Status(f.cache) {
		n += s.Objects
	}
	return n
}

func TestAWatchedObjectStaysCached(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		f.create(secret("a", "1"))
		h := f.watch()
		f.Expect(f.text("a")).To(Equal("1"))
		f.Expect(f.text("b")).To(Equal("not found"))
		<-time.After(9 * time.Hour)
		f.update(secret("a", "2"))
		f.create(secret("b", "3"))
		f.Expect(h.take()).To(Equal([]string{"added a=1", "updated a=1 to a=2", "added b=3"}))
		f.delete("b")
		<-time.After(25 * time.Hour)
		h.take()
		f.create(secret("b", "4"))
		f.update(secret("a", "5"))
		f.Expect(h.take()).To(Equal([]string{"updated a=2 to a=5"}), "b was deleted, and not read for a day")
	})
}

func TestHandlersGetEventsOfWhatWasRead(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		h := f.watch()
		f.create(secret("a", "1"))
		f.create(secret("never-read", "1"))
		f.Expect(f.text("a")).To(Equal("1"))
		f.update(secret("a", "2"))
		f.delete("a")
		f.create(secret("a", "3"))
		f.Expect(h.take()).To(Equal([]string{"added a=1", "updated a=1 to a=2", "deleted a=2", "added a=3"}))
		<-time.After(10*time.Hour + time.Second)
		f.Expect(h.take()).To(Equal([]string{"updated a=3 to a=3"}), "the resync of the cache")
	})
}

func TestADropIsNoDeletion(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		f.create(secret("a", "1"))
		f.Expect(f.text("a")).To(Equal("1"))
		<-time.After(10*time.Minute + 90*time.Second) // it is no longer held, and soon dropped
		h := f.watch()
		<-time.After(10 * time.Minute)
		f.Expect(objects(f)).To(BeZero())
		f.Expect(f.text("a")).To(Equal("1"))
		f.Expect(h.take()).To(Equal([]string{"added a=1"}))
	})
}

func TestALaterHandlerFirstGetsWhatIsCached(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		f.create(secret("a", "1"))
		f.Expect(f.text("a")).To(Equal("1"))
		h := f.watch()
		f.update(secret("a", "2"))
		f.Expect(h.take()).To(Equal([]string{"initial", "added a=1", "updated a=1 to a=2"}))
	})
}

func TestAGetSeesEarlierWrites(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		f.late = 5 * time.Second
		f.create(secret("a", "1"))
		f.Expect(f.text("a")).To(Equal("1"))
		f.Expect(f.client.Update(f.ctx, secret("a", "2"))).To(Succeed())
		f.Expect(f.text("a")).To(Equal("2"))
		f.Expect(f.client.Delete(f.ctx, secret("a", ""))).To(Succeed())
		f.Expect(f.text("a")).To(Equal("not found"))
		f.Expect(f.client.Create(f.ctx, secret("a", "3"))).To(Succeed())
		f.Expect(f.text("a")).To(Equal("3"))
		f.Expect(f.client.DeleteAllOf(f.ctx, &corev1.Secret{}, client.InNamespace("shop"))).To(Succeed())
		f.Expect(f.text("a")).To(Equal("not found"))
	})
}

func TestReadYourWritesOfTheClientDoesNotHang(t *testing.T) {
	s := settings{client: client.CacheOptions{EnableReadYourWritesConsistency: new(true)}}
	run(t, s, func(f *fixture) {
		f.late = 5 * time.Second
		a := secret("a", "1")
		f.Expect(f.client.Create(f.ctx, a)).To(Succeed())
		f.Expect(f.text("a")).To(Equal("1"), "it had not been read before")
		a.Data["text"] = []byte("2")
		f.Expect(f.client.Update(f.ctx, a)).To(Succeed())
		f.Expect(f.text("a")).To(Equal("2"))
		b := secret("b", "1")
		f.Expect(f.client.Create(f.ctx, b)).To(Succeed())
		f.Expect(f.client.Delete(f.ctx, b)).To(Succeed())
		f.Expect(f.text("b")).To(Equal("not found"), "it had not been read before")
		f.Expect(f.client.Delete(f.ctx, a)).To(Succeed())
		f.Expect(f.text("a")).To(Equal("not found"))
		<-time.After(30 * time.Minute)
		f.Expect(f.sent()).NotTo(BeEmpty())
		f.Expect(objects(f)).To(BeZero())
	})
}

func TestListAsksTheServer(t *testing.T) {
	noY := labels.SelectorFromSet(labels.Set{"y": "true"})
	for name, c := range map[string]struct {
		options cache.Options
		want    []string
	}{
		"all":         {cache.Options{}, []string{"a", "b", "else"}},
		"a namespace": {cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}}}, []string{"a", "b"}},
		"a selector":  {cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"x": "true"})}, []string{"a"}},
		"of a kind":   {cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: noY}}}, nil},
		"by namespace": {cache.Options{DefaultNamespaces: map[string]cache.Config{
			"shop": {LabelSelector: noY}, cache.AllNamespaces: {},
		}}, []string{"else"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{cache: c.options}, func(f *fixture) {
				f.create(secret("a", "1", "x"))
				f.create(secret("b", "1"))
				elsewhere := secret("else", "1")
				elsewhere.Namespace = "home"
				f.create(elsewhere)
				var list corev1.SecretList
				f.Expect(f.client.List(f.ctx, &list)).To(Succeed())
				f.Expect(named(&list)).To(Equal(c.want))
				f.Expect(objects(f)).To(BeZero())
				f.Expect(f.client.List(f.ctx, &list, client.MatchingLabels{"x": "true"}, client.InNamespace("shop"))).To(Succeed())
				f.Expect(len(list.Items)).To(BeNumerically("<=", 1))
				f.Expect(f.client.List(f.ctx, &list, client.MatchingLabelsSelector{Selector: labels.Nothing()})).To(Succeed())
				f.Expect(list.Items).To(BeEmpty())
			})
		})
	}
}

func TestListsAreRefused(t *testing.T) {
	run(t, settings{Options: controllerruntime.Options{RefuseLists: true}}, func(f *fixture) {
		f.Expect(f.client.List(f.ctx, &corev1.SecretList{})).To(MatchError(ContainSubstring("RefuseLists")))
		f.Expect(f.client.List(f.ctx, &corev1.ConfigMapList{})).To(Succeed())
	})
}

func TestAFieldIndexSelectsWhatTheServerSends(t *testing.T) {
	run(t, settings{}, func(f *fixture) {
		f.create(secret("a", "1"))
		f.create(secret("b", "2"))
		content := func(o client.Object) []string { return []string{string(o.(*corev1.Secret).Data["text"])} }
		f.Expect(f.cache.IndexField(f.ctx, &corev1.Secret{}, "content", content)).To(Succeed())
		f.Expect(f.cache.IndexField(f.ctx, &corev1.Secret{}, "content", content)).NotTo(Succeed())
		var list corev1.SecretList
		f.Expect(f.client.List(f.ctx, &list, client.MatchingFields{"content": "2"})).To(Succeed())
		f.Expect(named(&list)).To(Equal([]string{"b"}))
		f.Expect(f.client.List(f.ctx, &list, client.MatchingFields{"content": "2", "metadata.name": "a"})).To(Succeed())
		f.Expect(named(&list)).To(BeEmpty())
	})
}

func TestSettingsOfTheCacheApply(t *testing.T) {
	s := settings{cache: cache.Options{
		DefaultTransform: func(o any) (any, error) {
			if s, ok := o.(*corev1.Secret); ok {
				s.Data["text"] = append(s.Data["text"], '!')
			}
			return o, nil
		},
		DefaultNamespaces: map[string]cache.Config{"shop": {}},
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Label: labels.SelectorFromSet(labels.Set{"x": "true"})},
		},
	}}
	run(t, s, func(f *fixture) {
		f.create(secret("a", "1", "x"))
		f.create(secret("b", "2"))
		f.Expect(f.text("a")).To(Equal("1!"))
		f.Expect(f.text("b")).To(Equal("not found"))
		h := f.watch()
		f.update(secret("a", "2", "x"))
		f.update(secret("a", "3"))
		f.Expect(h.take()).To(Equal([]string{"initial", "added a=1!", "updated a=1! to a=2!", "deleted a=2!"}))
		f.Expect(f.text("a")).To(Equal("not found"))
		err := f.client.Get(f.ctx, client.ObjectKey{Namespace: "home", Name: "a"}, &corev1.Secret{})
		f.Expect(err).To(MatchError(ContainSubstring("the cache does not read this namespace")))
	})
}

func TestObjectsAreCopiedUnlessToldOtherwise(t *testing.T) {
	for name, shares := range map[string]bool{"copied": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{cache: cache.Options{DefaultUnsafeDisableDeepCopy: &shares}}, func(f *fixture) {
				f.create(secret("a", "1"))
				var first, second corev1.Secret
				f.Expect(f.client.Get(f.ctx, key("a"), &first)).To(Succeed())
				f.Expect(f.client.Get(f.ctx, key("a"), &second)).To(Succeed())
				same, hasKind := &first.Data["text"][0] == &second.Data["text"][0], second.Kind != ""
				f.Expect(same).To(Equal(shares))
				f.Expect(hasKind).To(Equal(!shares), "as controller-runtime's cache does")
			})
		})
	}
}

func TestRepresentationsAreSeparate(t *testing.T) {
	run(t, settings{client: client.CacheOptions{Unstructured: true}}, func(f *fixture) {
		f.create(secret("a", "1", "x"))
		whole := &unstructured.Unstructured{}
		whole.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		f.Expect(f.client.Get(f.ctx, key("a"), whole)).To(Succeed())
		f.Expect(whole.Object["data"]).To(Equal(map[string]any{"text": "MQ=="}))
		part := &metav1.PartialObjectMetadata{}
		part.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		f.Expect(f.client.Get(f.ctx, key("a"), part)).To(Succeed())
		f.Expect(part.Labels).To(HaveKey("x"))
		f.Expect(part.Kind).To(Equal("Secret"))
		f.Expect(f.text("a")).To(Equal("1"))
		f.Expect(objects(f)).To(Equal(3))
		f.update(secret("a", "2", "y"))
		f.Expect(f.client.Get(f.ctx, key("a"), part)).To(Succeed())
		f.Expect(part.Labels).To(HaveKey("y"))
	})
}

func TestOtherKindsAreCachedAsAWhole(t *testing.T) {
	run(t, settings{cache: cache.Options{ReaderFailOnMissingInformer: true}}, func(f *fixture) {
		f.create(secret("a", "1"))
		f.Expect(f.text("a")).To(Equal("1"))
		missing := &cache.ErrResourceNotCached{}
		f.Expect(f.client.Get(f.ctx, key("a"), &corev1.ConfigMap{})).To(BeAssignableToTypeOf(missing))
		_, err := f.cache.GetInformer(f.ctx, &corev1.ConfigMap{})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.client.Get(f.ctx, key("a"), &corev1.ConfigMap{})).To(Satisfy(func(err error) bool {
			return client.IgnoreNotFound(err) == nil
		}))
		f.Expect(f.sent()).To(ContainElement("WATCH /api/v1/configmaps "))
		f.Expect(controllerruntime.Status(f.cache)).To(HaveLen(2))
	})
}

func TestAKindWithoutNamespacesIsCachedOnDemand(t *testing.T) {
	run(t, settings{cache: cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}}}}, func(f *fixture) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		_, err := f.admin.CoreV1().Namespaces().Create(f.ctx, ns, metav1.CreateOptions{})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.client.Get(f.ctx, client.ObjectKey{Namespace: "ignored", Name: "shop"}, ns)).To(Succeed())
		f.Expect(ns.UID).NotTo(BeEmpty())
	})
}

func TestNothingIsReadBeforeTheStartOrAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, settings{})
		f.Expect(f.text("a")).To(ContainSubstring("not started"))
		f.Expect(f.client.List(f.ctx, &corev1.SecretList{})).To(MatchError(ContainSubstring("not started")))
	})
	var after *fixture
	run(t, settings{}, func(f *fixture) {
		f.text("a")
		f.Expect(f.cache.RemoveInformer(f.ctx, &corev1.Secret{})).To(Succeed())
		f.Expect(f.text("a")).To(Equal("not found"), "a kind that was removed begins again")
		after = f
	})
	_, err := after.cache.GetInformer(t.Context(), &corev1.Secret{})
	after.Expect(err).NotTo(HaveOccurred())
}
