// Package subcommand runs a program of package operator as a subcommand of
// cobra.
package subcommand

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/homeostat/homeostat/operator"
)

// New returns a subcommand that passes its arguments to a program, and sets
// code to the program's exit code.
func New(program operator.Program, out io.Writer, code *int) *cobra.Command {
	return &cobra.Command{
		Use:                "run",
		DisableFlagParsing: true, // the program parses its own flags, including --help
		Run: func(_ *cobra.Command, args []string) {
			*code = program.Main(args, out)
		},
	}
}
