package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
)

// The end of the timeout cuts the last attempt off. What the attempts before it
// have found must not be lost: a certificate that is not accepted looked like a
// server that is down.
func TestTheReasonOfAStartThatFailsIsTheLastOneThatIsKnown(t *testing.T) {
	refused := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"a server that is down": {
			errors.New("connection refused"),
			"reaching the API server at https://api: no answer in 3s: check that it runs and that the kubeconfig names it: " +
				"connection refused",
		},
		"a certificate": {
			refused, "reaching the API server at https://api: no certificate that this program accepts in 3s: check the address " +
				"and the authority in the kubeconfig: " + refused.Error(),
		},
		"no answer at all": {
			nil, "reaching the API server at https://api: no answer in 3s: check that it runs and that the kubeconfig names it: " +
				"context deadline exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := cluster.New(&rest.Config{Host: "https://api"}, nil)
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				attempts := 0
				err = persist(t.Context(), c, 3*time.Second, func(ctx context.Context) error {
					if attempts++; attempts == 1 && row.err != nil {
						return row.err
					}
					<-ctx.Done()
					return ctx.Err()
				})
				NewWithT(t).Expect(err).To(MatchError(row.want))
			})
		})
	}
}

// KUBECONFIG may name a file that does not exist.
func TestTheFilesInWhichThereIsNoKubeconfigAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", file)
	_, err := readKubeconfig("")
	NewWithT(t).Expect(err).To(MatchError("finding a cluster: this process does not run in a Pod, and there is no kubeconfig in " +
		file + ": set --kubeconfig or KUBECONFIG"))
}
