// Command agent reboots the node it runs on when the controller has granted it.
package main

import (
	"os"

	"github.com/homeostat/homeostat/examples/reboot/internal/program"
)

func main() { os.Exit(program.Agent().Main(os.Args[1:], os.Stderr)) }
