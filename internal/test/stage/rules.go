package stage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Rules returns the rules of the ClusterRole in deploy, the folder with the
// manifests of an example.
func Rules(deploy string) ([]rbacv1.PolicyRule, error) {
	file, err := os.Open(filepath.Join(deploy, "rbac.yaml"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		role := &rbacv1.ClusterRole{}
		err := decoder.Decode(role)
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("reading %s: the file has no ClusterRole", file.Name())
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
		case role.Kind == "ClusterRole":
			return role.Rules, nil
		}
	}
}
