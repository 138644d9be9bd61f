// Command website runs a web server for each Website, and tells a CDN the
// addresses of the servers. See README.md.
package main

import (
	"flag"
	"os"

	"github.com/homeostat/homeostat/examples/website/internal/website"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	var cdn website.CDN
	os.Exit(operator.Program{
		Name: website.Name, Needs: []string{
			"get,list,patch,watch websites.web.homeostat.dev", "patch websites.web.homeostat.dev/status",
			"list,watch secrets by name",
			"create,delete,get,list,patch,watch deployments.apps", "create,delete,get,list,patch,watch services",
		},
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar((*string)(&cdn), "cdn", "cdn", "`directory` that the CDN reads, with one file for each website")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) { return website.Setup(env, cdn) },
	}.Main(os.Args[1:], os.Stderr))
}
