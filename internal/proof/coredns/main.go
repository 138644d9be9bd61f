// Command coredns is the name server for the tests of dns-zone. It is CoreDNS
// with the plugins that examples/dns-zone/deploy/Corefile uses, and with the
// plugin bind.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	dnsserver.Directives = []string{"bind", "ready", "health", "errors", "file"}
	coremain.Run()
}
