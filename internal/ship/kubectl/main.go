// Command kubectl is the kubectl in the image of observe. The scripts of
// observe call it.
package main

import (
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cmd.NewDefaultKubectlCommand().Execute(); err != nil {
		util.CheckErr(err) // exits with the status of the command that failed
	}
}
