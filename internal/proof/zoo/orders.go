package zoo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classOrder = "wrong belief about order"

func orders() []Specimen {
	return []Specimen{
		Specimen{
			Name: "the first that it sees is the first", Class: classOrder, World: laterFirst, Found: "tail", SDKFound: "tail",
		}.reconciles(firstSeen(), stateless(byBirth)),
		Specimen{
			Name: "the number of keys is the next name", Class: classOrder, World: comeAndGo,
			Found: "state", SDKFound: "state",
		}.reconciles(stateless(nextByCount), stateless(eachByNumber)),
	}
}

// firstSeen returns a program that makes the first App that it sees the
// primary. After a restart this may be a different App.
func firstSeen() wiring {
	return wiring{reconcile: func() Reconcile {
		primary := ""
		return func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
			if primary == "" {
				primary = app.Name
			}
			if err := d.annotate(ctx, app, "primary", primary); err != nil {
				return err
			}
			return nil
		}
	}}
}

// byBirth records the day on which the App was created, because the day does
// not depend on the order of events.
func byBirth(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	return d.annotate(ctx, app, "born", app.CreationTimestamp.UTC().Format("2006-01-02"))
}

// laterFirst returns a case in which the order of names differs from the order
// of creation.
func laterFirst() *reconciletest.Case {
	c := withSteps(reconciletest.Create(newApp("0")))()
	c.Goal = nil
	return c
}

const enough = 2

// nextByCount derives the next name from the number of objects, although the
// first object may be missing.
func nextByCount(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if n := len(d.secrets(app.Name)); n < enough {
		return d.create(ctx, newSecret(app, fmt.Sprintf("%s-%d", app.Name, n)))
	}
	return d.annotate(ctx, app, ready, "yes")
}

func eachByNumber(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	secrets := d.secrets(app.Name)
	for n := range enough {
		name := fmt.Sprintf("%s-%d", app.Name, n)
		if _, ok := find(secrets, name); ok {
			continue
		}
		if err := d.create(ctx, newSecret(app, name)); err != nil {
			return err
		}
	}
	return d.annotate(ctx, app, ready, "yes")
}
