package absent_test

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/absent"
)

// For example, a program deletes web in two namespaces, and one of the servers
// does not answer.
func TestEachOfTheErrorsThatAreJoinedMustBeAProof(t *testing.T) {
	g := NewWithT(t)
	proof := apierrors.NewNotFound(services, "web")
	away := apierrors.NewServiceUnavailable("the storage is away")
	page := apierrors.NewGenericServerResponse(404, "delete", services, "web", "no route", 0, true)
	for _, err := range []error{
		errors.Join(proof), errors.Join(nil, proof), errors.Join(proof, proof), fmt.Errorf("deleting: %w", errors.Join(proof, proof)),
	} {
		g.Expect(absent.Proven(err, services, "web")).To(BeTrue(), err.Error())
	}
	for _, err := range []error{
		errors.Join(proof, away), errors.Join(away, proof), errors.Join(proof, page), errors.Join(page, proof),
		errors.Join(proof, errors.New("connection refused")), fmt.Errorf("in a: %w, in b: %w", proof, away),
		fmt.Errorf("deleting: %w", errors.Join(errors.Join(proof), away)),
		errors.Join(proof, apierrors.NewNotFound(services, "db")), errors.Join(proof, apierrors.NewNotFound(corev1.Resource("pods"), "web")),
	} {
		g.Expect(absent.Proven(err, services, "web")).To(BeFalse(), err.Error())
		g.Expect(absent.Object(err, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}})).To(BeFalse(), err.Error())
		g.Expect(absent.OfType[*corev1.Service](err, "web")).To(BeFalse(), err.Error())
	}
}

// For example, a program changes web in two namespaces, and one of the servers
// does not answer.
func TestEachOfTheErrorsThatAreJoinedMustBeAConflict(t *testing.T) {
	g := NewWithT(t)
	conflict := apierrors.NewConflict(services, "web", errors.New("it has changed"))
	exists := apierrors.NewAlreadyExists(services, "web")
	away := apierrors.NewServiceUnavailable("the storage is away")
	for _, err := range []error{
		errors.Join(conflict), errors.Join(conflict, nil, exists), fmt.Errorf("in a: %w", errors.Join(conflict, conflict)),
	} {
		g.Expect(absent.IsConflict(err)).To(BeTrue(), err.Error())
	}
	for _, err := range []error{
		errors.Join(conflict, away), errors.Join(away, conflict), errors.Join(conflict, errors.New("connection refused")),
		fmt.Errorf("in a: %w, in b: %w", conflict, away), fmt.Errorf("writing: %w", errors.Join(errors.Join(conflict), away)),
	} {
		g.Expect(absent.IsConflict(err)).To(BeFalse(), err.Error())
	}
}
