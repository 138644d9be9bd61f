package subcommand_test

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/homeostat/homeostat/examples/interop/subcommand"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func ExampleNew() {
	program := operator.Program{Name: "labeller", Setup: func(operator.Env) ([]*reconcile.Controller, error) {
		return nil, nil // see package operator
	}}
	code := 0
	root := &cobra.Command{Use: "tools"}
	root.AddCommand(subcommand.New(program, os.Stdout, &code))
	root.SetArgs([]string{"run", "--startup-timeout=0s"})
	fmt.Println(root.Execute(), code)
	// Output:
	// labeller: --startup-timeout is 0s: must be more than 0
	// <nil> 2
}
