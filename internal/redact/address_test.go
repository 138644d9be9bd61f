package redact_test

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/redact"
)

func TestAnAddressIsShownWithoutItsPassword(t *testing.T) {
	for address, shown := range map[string]string{
		"https://api.example.com:6443/clusters/a@b?c=d@e": "https://api.example.com:6443/clusters/a@b?c=d@e",
		"api.example.com":                      "api.example.com",
		"":                                     "",
		"http://bob:pw@proxy:3128":             "http://***@proxy:3128",
		"https://bob:p%40w@host/path/a@b":      "https://***@host/path/a@b",
		"socks5://bob@proxy:1080":              "socks5://***@proxy:1080",
		"bob:pw@proxy:3128":                    "***@proxy:3128",
		"http://bob:p@w@proxy:3128":            "http://***@proxy:3128",
		"http://bob:p%zw@proxy:3128":           "http://***@proxy:3128",
		"http://bob:p/w@proxy:3128":            "http://***@proxy:3128",
		"http://bob:p#w@proxy:3128":            "http://***@proxy:3128",
		"http://bob:12#w@proxy:3128":           "http://***@proxy:3128",
		"http://bob:12/w@proxy:3128":           "http://***@proxy:3128",
		"https://bob:12?w@api:6443/a":          "https://***@api:6443/a",
		"https://api:6443/users/a@b/c":         "https://api:6443/users/a@b/c",
		"http://bob:p w@proxy:3128":            "http://***@proxy:3128",
		"http://bob:p:w@pro xy:3128":           "http://***@pro xy:3128",
		"https://bob:pw@[fd00::1]:6443/a":      "https://***@[fd00::1]:6443/a",
		"https://[fd00::1]:6443/apis?q=a@b.cd": "https://[fd00::1]:6443/apis?q=a@b.cd",
	} {
		NewWithT(t).Expect(redact.Address(address)).To(Equal(shown), address)
	}
}

func TestAnErrorIsShownWithoutThePasswordsOfAddresses(t *testing.T) {
	g := NewWithT(t)
	address := `http://bob:p"w@pro xy:3128`
	quoting := fmt.Errorf("invalid %q: could not parse: %v", address, address)
	err := redact.Addresses(quoting, "", "http://other", address)
	g.Expect(err).To(MatchError(`invalid "http://***@pro xy:3128": could not parse: http://***@pro xy:3128`))
	about := errors.New("something else")
	g.Expect(redact.Addresses(about, address)).To(BeIdenticalTo(about))
	g.Expect(redact.Addresses(nil, address)).To(Succeed())
}
