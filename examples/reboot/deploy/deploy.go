// Package deploy contains the manifests of the reboot operator. Apply them with
// kubectl apply -k, or read them with Manifest.
package deploy

import "embed"

//go:embed *.yaml signal/*.yaml
var files embed.FS

// Manifest returns one of the files, such as crd.yaml or signal/daemonset.yaml.
// It panics if the file does not exist.
func Manifest(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}
