package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homeostat/homeostat/internal/proof/bench/crowd"
)

// fewProviders has the new text of two files of external-secrets, by path.
// These files register only the providers that are used here. The clients of
// cloud providers would link hundreds of packages.
var fewProviders = map[string]string{ //nolint:gochecknoglobals // a table
	"pkg/provider/register/register.go": `package register

import (
	_ "github.com/external-secrets/external-secrets/pkg/provider/fake"
	_ "github.com/external-secrets/external-secrets/pkg/provider/kubernetes"
)
`,
	"pkg/generator/register/register.go": `package register

import (
	_ "github.com/external-secrets/external-secrets/pkg/generator/fake"
	_ "github.com/external-secrets/external-secrets/pkg/generator/password"
	_ "github.com/external-secrets/external-secrets/pkg/generator/uuid"
)
`,
}

// externalSecretsWebhooks are the edits that adapt the webhooks to the API of
// controller-runtime v0.23 and later.
var externalSecretsWebhooks = slices.Concat( //nolint:gochecknoglobals // a table
	webhook("apis/externalsecrets/v1/externalsecret_webhook.go", "es"),
	webhook("apis/externalsecrets/v1/secretstore_webhook.go", "c"),
	webhook("apis/externalsecrets/v1beta1/externalsecret_webhook.go", "es"),
	webhook("apis/externalsecrets/v1beta1/secretstore_webhook.go", "c"),
)

func webhook(file, object string) []edit {
	return []edit{
		{
			file, "NewWebhookManagedBy(mgr).\n\t\tFor(" + object + ").\n\t\tWithValidator(",
			"NewWebhookManagedBy(mgr, " + object + ").\n\t\tWithCustomValidator(",
		},
	}
}

// externalSecrets returns n ExternalSecrets, and the store to which they refer.
func externalSecrets(n int) string {
	var b strings.Builder
	b.WriteString(`apiVersion: external-secrets.io/v1
kind: ClusterSecretStore
metadata: {name: fake}
spec:
  provider:
    fake:
      data: [{key: password, value: correct horse battery staple}]
`)
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: external-%d, namespace: %s}
spec:
  refreshInterval: 1h
  secretStoreRef: {kind: ClusterSecretStore, name: fake}
  data: [{secretKey: password, remoteRef: {key: password}}]
`, i, crowd.Namespace(i))
	}
	return b.String()
}
