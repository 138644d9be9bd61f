// Command kubectl is the one in the image of observe, for its scripts.
package main

import (
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cmd.NewDefaultKubectlCommand().Execute(); err != nil {
		util.CheckErr(err) // it exits with the status that belongs to the error
	}
}
