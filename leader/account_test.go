package leader_test

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/leader"
)

func TestARefusedTokenIsNamedByItsAccount(t *testing.T) {
	token := func(claims string) string {
		return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".secret"
	}
	const refused = `reading lease "default/test": Unauthorized: the API server does not accept the token of ServiceAccount ` +
		`"website" in namespace "shop"`
	for name, row := range map[string]struct {
		token, want string
		ahead       time.Duration // of the server's clock
	}{
		"without an end": {
			token: token(`{"sub":"system:serviceaccount:shop:website"}`),
			want:  refused + "; `kubectl -n shop get serviceaccount website` says whether the account exists",
		},
		// In the bubble it is midnight of 2000-01-01.
		"that has expired by the clock of the server": {
			token: token(`{"sub":"system:serviceaccount:shop:website","exp":946688400}`), ahead: 2 * time.Hour,
			want: refused + ": the token expired at 2000-01-01T01:00:00Z, and was not renewed",
		},
		"that has expired by the clock of this machine only": {
			token: token(`{"sub":"system:serviceaccount:shop:website","exp":946684740}`), ahead: -2 * time.Hour,
			want: refused + ", although by the server's clock (this machine's is 2h0m0s ahead of it) it does not expire before " +
				"1999-12-31T23:59:00Z: the account or the Pod was deleted or recreated, or the server has another key; " +
				"`kubectl -n shop get serviceaccount website` says whether the account exists, and its age",
		},
		"that has expired": {
			token: token(`{"sub":"system:serviceaccount:shop:website","exp":946684740}`),
			want:  refused + ": the token expired at 1999-12-31T23:59:00Z, and was not renewed",
		},
		"that was revoked": {
			token: token(`{"sub":"system:serviceaccount:shop:website","exp":946688400}`),
			want: refused + ", although by the clock of this machine it does not expire before 2000-01-01T01:00:00Z: the account " +
				"or the Pod was deleted or recreated, or the server has another key; " +
				"`kubectl -n shop get serviceaccount website` says whether the account exists, and its age",
		},
		"of a person": {token: token(`{"sub":"alice"}`), want: `reading lease "default/test": Unauthorized`},
		"opaque":      {token: "a.b.c", want: `reading lease "default/test": Unauthorized`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			NewWithT(t).Expect(os.WriteFile(file, []byte(row.token+"\n"), 0o600)).To(Succeed())
			inBubble(t, func(x *fixture) {
				_, config := x.secured(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Date", time.Now().Add(row.ahead).UTC().Format(http.TimeFormat))
					w.WriteHeader(http.StatusUnauthorized)
					_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized",` +
						`"reason":"Unauthorized","code":401}`))
				})
				config.BearerTokenFile = file
				leases, err := leader.Client(config)
				x.Expect(err).NotTo(HaveOccurred())
				e := newElector(x.T, leader.Lease{Client: leases, Namespace: "default", Name: "test", Identity: "a"}, nil)
				stop := x.campaign(e, "a")
				pass(5 * time.Second)
				x.Expect(e.Ready()).To(MatchError(row.want))
				stop()
			})
		})
	}
}
