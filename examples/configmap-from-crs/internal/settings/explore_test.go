package settings_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/settings"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 5 * time.Second

func settingOf(namespace, name, key, value string) *api.Setting {
	return &api.Setting{
		TypeMeta:   metav1.TypeMeta{APIVersion: api.Group + "/" + api.Version, Kind: api.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       api.SettingSpec{Key: key, Value: value},
	}
}

// lifeOfSettings is a world in which Settings come, change and go.
func lifeOfSettings() *reconciletest.Case {
	return &reconciletest.Case{
		Roles: []string{"../../deploy/rbac.yaml"},
		Resources: []metav1.APIResource{{
			Group: api.Group, Version: api.Version, Name: api.Resource, Kind: api.Kind, Namespaced: true,
		}},
		Run: func(env *reconciletest.Env) error {
			inputs, err := api.NewKind(stage.Reach(env.Config()))
			if err != nil {
				return err
			}
			c, err := settings.New(stage.Client(env.Config()), inputs.In, nil)
			if err != nil {
				return err
			}
			return c.Run(env.Context())
		},
		Workload: []reconciletest.Step{
			reconciletest.Create(settingOf("d", "a", "colour", "red")),
			reconciletest.Create(settingOf("d", "b", "size", "10")),
			reconciletest.Patch(api.Resource, "d/a", `{"spec":{"value":"blue"}}`),
			reconciletest.Create(settingOf("other", "a", "colour", "red")),
			reconciletest.Delete(api.Resource, "other/a"),
			reconciletest.Delete(api.Resource, "d/b"),
		},
		Goal: func(w *reconciletest.World) error {
			all, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
			if err != nil {
				return err
			}
			if len(all) != 1 || all[0].Namespace != "d" {
				return fmt.Errorf("there are %d ConfigMaps, want one, in d", len(all))
			}
			if !maps.Equal(all[0].Data, map[string]string{"colour": "blue"}) {
				return errors.New("the ConfigMap is not what the Settings say")
			}
			return nil
		},
	}
}

// A fault at every call and every event, and the same end.
func TestItSurvivesEveryFault(t *testing.T) {
	reconciletest.Explore(t, lifeOfSettings(), &reconciletest.Options{Budget: exploration})
}
