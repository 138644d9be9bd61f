//go:build e2e

package scaffold_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A kind whose objects contain a template of Pods, as many kinds do, has a long
// definition. The server takes it, keeps the labels of the template, and gives
// a port its protocol.
func TestE2EAKindMayContainPods(t *testing.T) {
	s := &stranger{WithT: NewWithT(t), t: t}
	s.connect()
	s.generate("--group=example.com --kind=Widget")
	types := filepath.Join("api", "v1alpha1", "widget_types.go")
	text := s.read(types)
	for old, replacement := range map[string]string{
		"import metav1 ":                "import (\n\tcorev1 \"k8s.io/api/core/v1\"\n\tmetav1 ",
		"pkg/apis/meta/v1\"\n":          "pkg/apis/meta/v1\"\n)\n",
		"\tText string `json:\"text\"`": "\tText string `json:\"text\"`\n\n\t// Template is for Pods.\n\tTemplate *corev1.PodTemplateSpec `json:\"template,omitempty\"`",
	} {
		s.Expect(text).To(ContainSubstring(old))
		text = strings.Replace(text, old, replacement, 1)
	}
	s.Expect(os.WriteFile(filepath.Join(s.dir, types), []byte(text), 0o600)).To(Succeed())
	s.sh("GOWORK=off make generate install && make install deploy")
	s.Expect(os.WriteFile(filepath.Join(s.dir, "pods.yaml"), []byte(`apiVersion: example.com/v1alpha1
kind: Widget
metadata: {name: pods, namespace: default}
spec:
  text: Hello
  template:
    metadata: {labels: {team: shop}}
    spec:
      containers: [{name: c, image: c, ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]}]
`), 0o600)).To(Succeed())
	s.Eventually(func() error {
		_, err := s.try("kubectl apply --validate=strict -f pods.yaml") // the kind is served shortly after it is established
		return err
	}, time.Minute).Should(Succeed())
	s.Expect(s.sh("kubectl get widget pods -o jsonpath={.spec.template.metadata.labels.team}")).To(Equal("shop"))
	s.Expect(s.sh("kubectl get widget pods -o jsonpath={.spec.template.spec.containers[0].ports[*].protocol}")).To(Equal("TCP UDP"))
}
