package reconciletest_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// versioned gives a parent a child that has the parent's resourceVersion, as a
// Deployment may have the resourceVersion of its ConfigMap.
func versioned(again bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		children := b.ChildrenOf(p)
		if len(children) == 0 {
			s := breeding.Child(p)
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, "config-version", p.ResourceVersion)
			return b.Create(ctx, s)
		}
		if !again && p.Data["x"] == "" { // the buggy one thinks that only these matter
			return nil
		}
		_, err := patch.Merge(ctx, b.Client.CoreV1().Secrets, children[0], nil, func(edit *corev1.Secret) {
			metav1.SetMetaDataAnnotation(&edit.ObjectMeta, "config-version", p.ResourceVersion)
		})
		return err
	}
}

// named gives a parent a child whose name is made of the parent's UID, after an
// Event that says so. The buggy one makes a child for each Event.
func named(name func(uid string) string, right bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if len(b.ChildrenOf(p)) > 0 {
			return nil
		}
		e, err := b.Client.CoreV1().Events(p.Namespace).Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: p.Name + "-"},
			InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: p.Namespace, Name: p.Name},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		s := breeding.Child(p)
		s.Name = name(string(p.UID))
		if !right {
			s.Name = name(string(e.UID))
		}
		return b.Create(ctx, s)
	}
}

func byUID(uid string) string { return "pvc-" + uid }

func byHash(uid string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	return fmt.Sprintf("job-%08x", h.Sum32())
}

// forgetful gives a child a name made of the UID, and never a child to a parent
// whose first attempt failed.
func forgetful() breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if len(b.ChildrenOf(p)) > 0 {
			return nil
		}
		s := breeding.Child(p)
		s.Name = byUID(string(p.UID))
		if err := b.Create(ctx, s); err != nil {
			return nil //nolint:nilerr // that is the bug
		}
		return nil
	}
}

func TestWhatDiffersBetweenRunsByRightIsNoDifference(t *testing.T) {
	exhaustive(t)
	for _, b := range []struct {
		name, oracle string
		breed        breeding.Breed
	}{
		{"the resourceVersion of another object", "", versioned(true)},
		{"an old resourceVersion", "state", versioned(false)},
		{"a name of a UID", "", named(byUID, true)},
		{"a name of the UID of something else", "counts", named(byUID, false)},
		{"no object of that name", "state", forgetful()},
		{"a name of the hash of a UID", "", named(byHash, true)},
		{"a name of the hash of the UID of something else", "counts", named(byHash, false)},
	} {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(b.breed)
			c.Workload[1] = reconciletest.Patch("configmaps", "d/a", `{"metadata":{"labels":{"x":"1"}}}`)
			c.Goal = nil
			r := reconciletest.Search(t, c, &reconciletest.Options{Seeds: 10, Budget: breeding.Budget})
			g.Expect(r.Oracle).To(gomega.Equal(b.oracle), "%s", r.Failure)
		})
	}
}

// twins runs two parts of one program that make the same Secret, each until it
// is there. The hasty ones do not wait when the server asks them to retry
// later.
func twins(hasty bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx, client := env.Context(), env.Client().CoreV1().RESTClient()
		create := func() error {
			shared := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "shared"}}
			post := client.Post().Namespace("d").Resource("secrets").Body(shared)
			if hasty {
				post = post.MaxRetries(0)
			}
			return post.Do(ctx).Error()
		}
		var join sync.WaitGroup
		for range 2 {
			join.Go(func() {
				for ctx.Err() == nil {
					err := create()
					switch {
					case err == nil || apierrors.IsAlreadyExists(err):
						return
					case !hasty || !apierrors.IsTooManyRequests(err):
						pause(ctx)
					}
				}
			})
		}
		<-ctx.Done()
		join.Wait()
		return nil
	}
}

func TestTwoPartsOfAProgramMaySendTheSameRequest(t *testing.T) {
	for _, b := range []struct {
		name, oracle string
		hasty        bool
	}{{"right", "", false}, {"hasty", "retry", true}} {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := once()
			c.Run = twins(b.hasty)
			r := reconciletest.Search(t, c, &reconciletest.Options{SkipDrift: true, Seeds: 10, Budget: breeding.Budget})
			g.Expect(r.Oracle).To(gomega.Equal(b.oracle), "%s", r.Failure)
		})
	}
}
