// Command agent reboots the node on which it runs when the controller grants
// the reboot.
package main

import (
	"os"

	"github.com/homeostat/homeostat/examples/reboot/internal/program"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == program.Mirror {
		os.Exit(program.RunMirror(os.Args[2:]))
	}
	os.Exit(program.Agent().Main(os.Args[1:], os.Stderr))
}
