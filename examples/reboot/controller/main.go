// Command controller lets the nodes of a cluster reboot. It never lets more
// nodes of a RebootGroup reboot at once than the group allows.
package main

import (
	"os"
	_ "time/tzdata" // the time zones of maintenance windows, in an image without them

	"github.com/homeostat/homeostat/examples/reboot/internal/program"
)

func main() { os.Exit(program.Controller().Main(os.Args[1:], os.Stderr)) }
