package apisim_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/apisim"
)

func TestParseCallReadsPaths(t *testing.T) {
	for request, want := range map[string]string{
		"GET /api/v1/pods":                                              "list pods ",
		"GET /api/v1/pods?watch=1":                                      "watch pods ",
		"GET /api/v1/namespaces/d/pods/p":                               "get pods d/p",
		"GET /api/v1/namespaces/d/pods/p?watch=true":                    "get pods d/p",
		"POST /api/v1/namespaces/d/pods/p/eviction":                     "create pods/eviction d/p",
		"GET /api/v1/namespaces/d":                                      "get namespaces d",
		"PUT /api/v1/namespaces/d/finalize":                             "update namespaces/finalize d",
		"PATCH /api/v1/namespaces/d/status":                             "patch namespaces/status d",
		"DELETE /apis/apps/v1/namespaces/d/deployments":                 "deletecollection deployments d/",
		"DELETE /apis/apps/v1/namespaces/d/deployments/a":               "delete deployments d/a",
		"GET /apis/apps/v1/namespaces/d/deployments/a/scale":            "get deployments/scale d/a",
		"GET /apis/apps/v1":                                             "",
		"GET /version":                                                  "",
		"OPTIONS /apis/apps/v1/namespaces/d/deployments/a":              "",
		"GET /api/v1/namespaces/d/services/s/proxy/way?watch=1":         "get services/proxy/way d/s",
		"GET /api/v1/namespaces/d/pods?fieldSelector=metadata.name%3Dp": "list pods d/p",
		"GET /api/v1/pods?fieldSelector=metadata.name%3Dp&watch=1":      "watch pods p",
		"GET /api/v1/pods?fieldSelector=metadata.name!%3Dp":             "list pods ",
		"GET /api/v1/pods?fieldSelector=!!":                             "list pods ",
	} {
		t.Run(request, func(t *testing.T) {
			g := gomega.NewWithT(t)
			method, path, _ := strings.Cut(request, " ")
			req, err := http.NewRequestWithContext(t.Context(), method, "http://server"+path, nil)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			call, ok := apisim.ParseCall(req)
			g.Expect(ok).To(gomega.Equal(want != ""))
			if ok {
				g.Expect(call.String()).To(gomega.Equal("#0 " + want))
			}
		})
	}
}
