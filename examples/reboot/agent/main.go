// Command agent reboots the node that it runs on, when the controller grants it.
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
