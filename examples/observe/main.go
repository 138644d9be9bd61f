// Command observe runs a program for every object of a kind, and again whenever
// one changes. See README.md.
package main

import (
	"os"

	"github.com/spf13/cobra"
)

func main() {
	command := &cobra.Command{Use: "observe RESOURCE [flags] [-- COMMAND [ARG...]]"}
	if command.Execute() != nil {
		os.Exit(1)
	}
}
