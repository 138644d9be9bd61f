package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/proof/bench/crowd"
)

// chartServer is a placeholder in manifests. The method apply of world replaces
// it with the URL of the world's server of charts.
const chartServer = "http://charts.invalid"

// charts answers every request that has a password with the index of a Helm
// repository. The index contains a digest of the password, which shows which
// Secret the operator has read.
func charts(w http.ResponseWriter, r *http.Request) {
	_, password, ok := r.BasicAuth()
	if !ok {
		http.Error(w, "no password", http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprint(w, index(password))
}

func index(password string) string {
	return fmt.Sprintf(`apiVersion: v1
entries:
  web:
  - {apiVersion: v2, name: web, version: 1.0.0, digest: %x, urls: [web-1.0.0.tgz]}
`, sha256.Sum256([]byte(password)))
}

// helmRepositories returns n HelmRepositories, each with a Secret for its
// password.
func helmRepositories(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Secret
metadata: {name: helm-%[1]d, namespace: %[2]s}
stringData: {username: user, password: first}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: helm-%[1]d, namespace: %[2]s}
spec: {interval: 1h, url: "%[3]s", secretRef: {name: helm-%[1]d}}
`, i, crowd.Namespace(i), chartServer)
	}
	return b.String()
}

// fetchesIndex changes the password of a HelmRepository. It then waits until
// the operator has fetched the index with the new password and reports that the
// HelmRepository is ready.
func (w *world) fetchesIndex(ctx context.Context) error {
	password := fmt.Sprint(time.Now().UnixNano())
	patch := fmt.Appendf(nil, `{"stringData":{"password":%q}}`, password)
	_, err := w.client.CoreV1().Secrets(crowd.Namespace(0)).
		Patch(ctx, "helm-0", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	repositories := w.dynamic.Resource(schema.GroupVersionResource{
		Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "helmrepositories",
	}).Namespace(crowd.Namespace(0))
	want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(index(password))))
	var requested time.Time
	return eventually(ctx, "the HelmRepository has the index for the new password",
		func(ctx context.Context) (bool, error) {
			if time.Since(requested) > time.Second {
				requested = time.Now()
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, requested)
				if _, err := repositories.Patch(ctx, "helm-0", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					return false, err
				}
			}
			r, err := repositories.Get(ctx, "helm-0", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			found, _, err := unstructured.NestedString(r.Object, "status", "artifact", "revision")
			return found == want && conditions(r)["Ready"] == "True", err
		})
}
