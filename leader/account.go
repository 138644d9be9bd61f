package leader

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/hostclock"
)

// client is a client for Leases that knows its account.
type client struct {
	coordinationclient.LeasesGetter
	config *rest.Config
	clock  *hostclock.Comparison
}

// Explain adds the ServiceAccount, and the time at which its token expires, to
// the error of a request whose credentials the API server did not accept. It
// returns other errors unchanged, and all errors if the client has no token of
// a ServiceAccount.
func (c *client) Explain(err error) error {
	t, ok := tokenOf(c.config)
	if !ok || !apierrors.IsUnauthorized(err) {
		return err
	}
	err = fmt.Errorf("%w: the API server does not accept the token of ServiceAccount %q in namespace %q", err, t.name,
		t.namespace)
	ask := fmt.Sprintf("`kubectl -n %s get serviceaccount %s` says whether the account exists", t.namespace, t.name)
	end := t.ends.UTC().Format(time.RFC3339)
	offset, _ := c.clock.Difference() // the server decides by its own clock
	clockName := "the clock of this machine"
	if offset != 0 {
		clockName = "the server's clock (this machine's is " + hostclock.Apart(offset) + " it)"
	}
	switch {
	case t.ends.IsZero():
		return fmt.Errorf("%w; %s", err, ask)
	case time.Now().Add(-offset).After(t.ends):
		return fmt.Errorf("%w: the token expired at %s, and was not renewed", err, end)
	}
	return fmt.Errorf("%w, although by %s it does not expire before %s: the account or the Pod was deleted or "+
		"recreated, or the server has another key; %s, and its age", err, clockName, end, ask)
}

// token contains the claims of the token of a ServiceAccount. They are only for
// messages, because the token is not verified.
type token struct {
	namespace, name string
	ends            time.Time // when the token expires; zero if the token does not say
}

// tokenOf returns the claims of the token of config. ok is false if config has
// no token of a ServiceAccount.
func tokenOf(config *rest.Config) (t token, ok bool) {
	text := config.BearerToken
	if config.BearerTokenFile != "" {
		if content, err := os.ReadFile(config.BearerTokenFile); err == nil {
			text = string(content)
		}
	}
	parts := strings.Split(strings.TrimSpace(text), ".")
	const signed = 3 // header, claims and signature
	if len(parts) != signed {
		return t, false
	}
	content, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Subject string `json:"sub"`
		Ends    int64  `json:"exp"`
	}
	if err != nil || json.Unmarshal(content, &claims) != nil {
		return t, false
	}
	if claims.Ends > 0 {
		t.ends = time.Unix(claims.Ends, 0)
	}
	account, isAccount := strings.CutPrefix(claims.Subject, "system:serviceaccount:")
	namespace, name, found := strings.Cut(account, ":")
	t.namespace, t.name = namespace, name
	return t, isAccount && found
}
