package supervisor

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"text/template"
)

const kubeconfigTemplate = `apiVersion: v1
kind: Config
clusters:
- name: controlplane
  cluster:
    server: {{.Server}}
    certificate-authority-data: {{base64 .CA}}
users:
- name: {{.User}}
  user:
    client-certificate-data: {{base64 .Cert}}
    client-key-data: {{base64 .Key}}
contexts:
- name: controlplane
  context:
    cluster: controlplane
    user: {{.User}}
current-context: controlplane
`

// A kubeconfig holds all that a client needs; it refers to no other file.
type kubeconfig struct {
	Server        string
	User          string
	CA, Cert, Key []byte
}

// kubeconfig returns the kubeconfig of the client certificate with the given name.
func (d *dataDir) kubeconfig(user string) (*kubeconfig, error) {
	k := &kubeconfig{Server: d.server(), User: user}
	for name, content := range map[string]*[]byte{caCert: &k.CA, user + ".crt": &k.Cert, user + ".key": &k.Key} {
		data, err := os.ReadFile(d.pki(name))
		if err != nil {
			return nil, fmt.Errorf("reading a certificate: %w", err)
		}
		*content = data
	}
	return k, nil
}

func (k *kubeconfig) write(path string) error {
	functions := template.FuncMap{"base64": base64.StdEncoding.EncodeToString}
	parsed, err := template.New("kubeconfig").Funcs(functions).Parse(kubeconfigTemplate)
	if err != nil {
		return fmt.Errorf("reading the template of a kubeconfig: %w", err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, k); err != nil {
		return fmt.Errorf("filling in a kubeconfig: %w", err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}
