// Package deploy has the manifests of the reboot operator: apply them with kubectl
// apply -k, or take them from here.
package deploy

import "embed"

//go:embed *.yaml signal/*.yaml
var files embed.FS

// Manifest returns one of the files, such as crd.yaml or signal/daemonset.yaml.
// It panics if there is none of that name.
func Manifest(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}
