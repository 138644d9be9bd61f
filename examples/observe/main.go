// Command observe runs a program for every object of a kind, and runs it again
// whenever an object changes. See README.md.
package main

import (
	"fmt"
	"os"

	"github.com/homeostat/homeostat/examples/observe/internal/cli"
	"github.com/homeostat/homeostat/examples/observe/internal/pid1"
)

func main() {
	code, isFirst, err := pid1.Main()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	if !isFirst {
		code = cli.Main(os.Args, os.Stdout, os.Stderr)
	}
	os.Exit(code)
}
