package controllerruntime_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/controllerruntime"
)

func TestWrongOptionsAreRefusedWithTheirFields(t *testing.T) {
	for want, o := range map[string]controllerruntime.Options{
		"Options.OnDemand[1] is nil":     {OnDemand: []client.Object{&corev1.Secret{}, nil}},
		"Options.Keep is -1s":            {Keep: -time.Second},
		"Options.KeepAbsent is -1s":      {KeepAbsent: -time.Second},
		"must be at least Keep, 10m0s":   {KeepAbsent: time.Second},
		"must be an object such as":      {OnDemand: []client.Object{(*corev1.Secret)(nil)}},
		"rest.Config.Host is \"\"":       {OnDemand: []client.Object{&corev1.Secret{}}},
		"no kind is registered for the ": {OnDemand: []client.Object{&unregistered{}}},
	} {
		_, err := controllerruntime.NewCache(&o)(&rest.Config{}, cache.Options{})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)))
	}
}

// unregistered is a type that no scheme knows.
type unregistered struct{ corev1.Secret }
