package fleet_test

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
)

// knowing is a client that knows more about an error.
type knowing struct {
	coordinationclient.LeasesGetter
}

func (knowing) Explain(err error) error { return fmt.Errorf("%w: the token expired", err) }

func TestAnErrorOfARecordSaysWhatItsClientKnows(t *testing.T) {
	g := NewWithT(t)
	refused := errors.New("refused")
	r := fleet.Records{Client: knowing{}, Namespace: "n", Name: "l"}
	g.Expect(r.Explain("listing", refused)).To(MatchError(`listing lease "n/l": refused: the token expired`))
	r.Client = nil
	g.Expect(r.Explain("listing", refused)).To(MatchError(`listing lease "n/l": refused`))
}
