package zoo

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classStale = "own write not seen yet"

func staleness() []Specimen {
	return []Specimen{
		Specimen{
			Name: "the cache knows no key, so there is none", Class: classStale, World: comeAndGo,
			Found: "state", SDKFound: "state",
		}.reconciles(stateless(noneKnown), stateless(right)),
		Specimen{
			Name: "the next number by the cache", Class: classStale, World: twoApps,
			Found: "always", SDKFound: "always",
		}.reconciles(stateless(nextNumber), stateless(ownNumber)),
	}
}

// noneKnown makes a key if the cache shows none. So it makes a second key while
// the cache does not show the first one yet.
func noneKnown(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if len(d.secrets(app.Name)) == 0 {
		if err := d.create(ctx, unnamed(app)); err != nil {
			return err
		}
	}
	return d.annotate(ctx, app, ready, "yes")
}

// nextNumber gives an App the next free number. It gives two Apps the same
// number if the cache does not show the number of the first App yet.
func nextNumber(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return number(ctx, d, app, strconv.Itoa(len(d.secrets(""))+1))
}

// ownNumber uses a value that is unique without a counter.
func ownNumber(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return number(ctx, d, app, string(app.UID))
}

func number(ctx context.Context, d Desk, app *corev1.ConfigMap, value string) error {
	if _, ok := find(d.secrets(app.Name), app.Name+"-number"); ok {
		return nil
	}
	s := newSecret(app, app.Name+"-number")
	s.Annotations = map[string]string{"number": value}
	return d.create(ctx, s)
}

func twoApps() *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{newApp("a"), newApp("b")},
		Always: func(w *reconciletest.World) error {
			numbers, err := reconciletest.List[corev1.Secret](w, "secrets")
			if err != nil {
				return err
			}
			taken := map[string]string{}
			for _, n := range numbers {
				number := n.Annotations["number"]
				if owner := taken[number]; owner != "" {
					return fmt.Errorf("%s and %s have the same number", owner, n.Name)
				}
				taken[number] = n.Name
			}
			return nil
		},
	}
}
