package reconciletest_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// typedWidget is a Widget in the form of generated code.
type typedWidget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int64 `json:"size"`
	} `json:"spec"`
}

func (w *typedWidget) DeepCopyObject() runtime.Object {
	deep := *w
	w.DeepCopyInto(&deep.ObjectMeta)
	return &deep
}

type typedWidgets struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []typedWidget `json:"items"`
}

func (l *typedWidgets) DeepCopyObject() runtime.Object {
	deep := *l
	return &deep
}

// widgetsOf lists and watches Widgets. A typed list fails as a whole, as
// client-go's lists do.
func widgetsOf(env *reconciletest.Env, typed bool) cache.ListerWatcher {
	client := dynamic.NewForConfigOrDie(env.Config()).Resource(widgets)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, o)
			if err != nil || !typed {
				return list, err
			}
			body, err := list.MarshalJSON()
			if err != nil {
				return nil, err
			}
			all := &typedWidgets{}
			return all, json.Unmarshal(body, all)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, o)
			if err != nil || !typed {
				return w, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				u, ok := e.Object.(*unstructured.Unstructured)
				if !ok {
					return e, true
				}
				one := &typedWidget{}
				err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, one)
				e.Object = one
				return e, err == nil
			}), nil
		},
	}
}

// cached gives every Widget in an informer of client-go a Secret, now and then.
func cached(typed bool) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		var example runtime.Object = &unstructured.Unstructured{}
		if typed {
			example = &typedWidget{}
		}
		informer := cache.NewSharedIndexInformer(widgetsOf(env, typed), example, 0, nil)
		ctx, ended := env.Context(), make(chan struct{})
		go func() {
			defer close(ended)
			informer.RunWithContext(ctx)
		}()
		dynamicClient := dynamic.NewForConfigOrDie(env.Config()).Resource(widgets)
		for ctx.Err() == nil {
			for _, key := range informer.GetStore().ListKeys() {
				namespace, name, _ := cache.SplitMetaNamespaceKey(key)
				w, err := dynamicClient.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
				if err == nil {
					err = keyOf(ctx, env.Client(), w)
				}
				if err != nil && !apierrors.IsNotFound(err) {
					continue
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
			}
		}
		<-ended
		return nil
	}
}

func TestAnObjectThatGoCannotDecodeStopsATypedCache(t *testing.T) {
	for name, row := range map[string]struct {
		typed bool
		known []string
		want  string
	}{
		"the cache is typed":        {true, nil, `client-go cannot decode one object, which stops its whole kind: .*(\n.*)*secrets d/w-key`},
		"the case accepts it":       {true, []string{"stops its whole kind"}, "^$"},
		"the cache is unstructured": {false, nil, "^$"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := ofWidgets(cached(row.typed))
			c.Unwatched = []string{"secrets"}
			r := reconciletest.FailureOf(t, c, &reconciletest.Options{KnownFindings: row.known}, `^B1\.0`)
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
			g.Expect(r.Runs).To(gomega.Equal(3+1), "the deviation was tried")
			if r.Failure != "" {
				g.Expect(r.Reason).To(gomega.Equal("stops-kind"))
			}
		})
	}
}
