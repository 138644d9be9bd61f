package main

import (
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
)

// The linters of a new module know the mistake that loses data: a proxy's page
// is taken for the absence of an object.
func TestTheLintersOfANewModuleForbidAnyStatus404(t *testing.T) {
	g := NewWithT(t)
	files, err := render(named("Widget"), source{Homeostat: "v0.0.0", Replace: checkoutRoot})
	g.Expect(err).NotTo(HaveOccurred())
	text := string(files[".golangci.yml"])
	g.Expect(text).To(And(ContainSubstring("- forbidigo\n"), ContainSubstring("alias: apierrors")))
	pattern := regexp.MustCompile(`pattern: (\S+)`).FindStringSubmatch(text)
	g.Expect(pattern).To(HaveLen(2))
	for call, forbidden := range map[string]bool{
		"apierrors.IsNotFound": true, "client.IgnoreNotFound": true,
		"names.IsNotFound": false, "apierrors.IsConflict": false,
	} {
		g.Expect(regexp.MustCompile(pattern[1]).MatchString(call)).To(Equal(forbidden), call)
	}
}
