// Command controller lets the nodes of a cluster reboot, and never more of them
// at once than their RebootGroup allows.
package main

import (
	"os"
	_ "time/tzdata" // the time zones of maintenance windows, in an image that has none

	"github.com/homeostat/homeostat/examples/reboot/internal/program"
)

func main() { os.Exit(program.Controller().Main(os.Args[1:], os.Stderr)) }
