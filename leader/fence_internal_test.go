package leader

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestTargetOfAPath(t *testing.T) {
	for path, want := range map[string]target{
		"/api/v1/namespaces/default/pods/p/exec":            {resource: "pods", subresource: "exec"},
		"/api/v1/namespaces/default/pods":                   {resource: "pods"},
		"/api/v1/namespaces/default":                        {resource: "namespaces"},
		"/api/v1/namespaces/default/finalize":               {resource: "namespaces", subresource: "finalize"},
		"/api/v1/namespaces/default/status":                 {resource: "namespaces", subresource: "status"},
		"/api/v1/nodes/n/proxy/logs":                        {resource: "nodes", subresource: "proxy"},
		"/api/v1/proxy/namespaces/default/services/s/exec":  {verb: "proxy", resource: "services"},
		"/api/v1/watch/namespaces/default/pods/p":           {verb: "watch", resource: "pods"},
		"/apis/apps/v1/namespaces/d/deployments/proxy":      {resource: "deployments"},
		"/apis/apps/v1/namespaces/d/deployments/web/status": {resource: "deployments", subresource: "status"},
		"/apis/apps/v1":        {},
		"/api/v1":              {},
		"/healthz/pods/p/exec": {},
		"/":                    {},
		"":                     {},
	} {
		NewWithT(t).Expect(targetOf(path, "")).To(Equal(want), path)
	}
}
