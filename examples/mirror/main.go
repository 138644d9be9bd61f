// Command mirror keeps a copy of a Secret in every namespace that a
// SecretMirror selects. See README.md.
package main

import (
	"os"

	"github.com/homeostat/homeostat/examples/mirror/internal/mirror"
	"github.com/homeostat/homeostat/operator"
)

func main() {
	os.Exit(operator.Program{
		Name: mirror.Name,
		Needs: []string{ // writes of Secrets may be allowed in some namespaces only, and a refusal stops that copy
			"get,list,watch secretmirrors.mirror.homeostat.dev", "patch secretmirrors.mirror.homeostat.dev/status",
			"list,watch namespaces", "get,list,watch secrets",
		},
		Setup: mirror.Setup,
	}.Main(os.Args[1:], os.Stderr))
}
