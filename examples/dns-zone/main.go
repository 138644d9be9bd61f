// Command dns-zone gives every Service with an IP its records in a zone file.
// See README.md.
package main

import (
	"flag"
	"os"

	"github.com/homeostat/homeostat/examples/dns-zone/internal/dnszone"
	"github.com/homeostat/homeostat/examples/dns-zone/internal/zonefile"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	var (
		file    zonefile.File
		options dnszone.Options
	)
	os.Exit(operator.Program{
		Name:  dnszone.Name,
		Needs: []string{"get,list,watch services"},
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&file.Path, "zone", "", "`path` of the zone file; its directory must be writable")
			fs.StringVar(&file.Skeleton, "skeleton", "", "`path` of the file from which a missing zone file is made")
			fs.StringVar(&file.Origin, "origin", "", "`domain` of the records, with a dot at its end")
			fs.IntVar(&file.TTL, "ttl", zonefile.DefaultTTL, "`seconds` for which resolvers may cache a record")
			fs.DurationVar(&options.Resync, "resync", dnszone.DefaultResync, "how often the file is checked for edits by "+
				"other programs")
			fs.IntVar(&options.Sweep.Confirmed, "confirm-orphans", 0,
				"let the first sweep remove the records of up to N Services past the safety limit")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			options.Events, options.Leader = env.Events, env.Leader
			controller, err := dnszone.New(env.Cluster.Client(), &file, &options)
			return []*reconcile.Controller{controller}, err
		},
	}.Main(os.Args[1:], os.Stderr))
}
