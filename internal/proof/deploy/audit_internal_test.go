package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
)

const auditLog = `
{"verb":"watch","user":{"username":"system:serviceaccount:a:b"},"objectRef":{"resource":"pods"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"patch","user":{"username":"system:serviceaccount:a:b"},"objectRef":{"resource":"websites","apiGroup":"g","subresource":"status","namespace":"n","name":"x"}}
{"verb":"get","user":{"username":"system:serviceaccount:a:b"},"objectRef":{"resource":"leases","namespace":"a","name":"mine"}}
{"verb":"delete","requestURI":"/api/v1/pods/x","user":{"username":"system:serviceaccount:a:b"},"objectRef":{"resource":"pods"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"list","user":{"username":"system:serviceaccount:a:c"},"objectRef":{"resource":"pods"}}
`

func TestPermissionsAreComparedWithCalls(t *testing.T) {
	g := NewWithT(t)
	log := filepath.Join(t.TempDir(), "audit.log")
	g.Expect(os.WriteFile(log, []byte(auditLog[1:]), 0o600)).To(Succeed())
	calls, err := recordsOf(log, "system:serviceaccount:a:b")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(calls).To(HaveLen(4))

	granted := append(
		split([]rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "delete"}},
			{APIGroups: []string{"g"}, Resources: []string{"websites", "websites/status"}, Verbs: []string{"patch"}},
		}, ""),
		split([]rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"leases"}, ResourceNames: []string{"mine", "other"}, Verbs: []string{"get"}},
		}, "a")...)
	faults, spared := judge(granted, calls, map[string]string{"list pods": "why", "watch pods": "it is used"})
	g.Expect(faults).To(Equal([]string{
		"missing: delete /api/v1/pods/x",
		"unused: delete pods", // it was not granted then
		"unused: get leases other in a",
		"unused: patch websites.g",
	}))
	g.Expect(spared).To(Equal([]string{"list pods: why"}))
}
