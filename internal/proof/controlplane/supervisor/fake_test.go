package supervisor_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// fakeComponent stands in for a component: this test program, started again by
// the supervisor, serves where the component would, until its standard input
// ends. Two flags make it misbehave.
func fakeComponent(name string, args []string) int {
	flags := map[string]string{}
	for _, a := range args {
		key, value, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		flags[key] = value
	}
	if status, err := strconv.Atoi(flags["exit"]); err == nil {
		fmt.Fprintf(os.Stderr, "first line\n%s cannot go on\n", name)
		return status
	}
	if flags["unready"] == "" {
		go serve(flags)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // Whatever the cause, the supervisor has ended.
	return 0
}

// serve answers every request with the process id.
func serve(flags map[string]string) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, os.Getpid()) })
	if u, err := url.Parse(flags["listen-client-urls"]); err == nil && u.Host != "" {
		log.Fatal(http.ListenAndServe(u.Host, handler))
	}
	if port := flags["secure-port"]; port != "0" {
		address := net.JoinHostPort(flags["bind-address"], port)
		log.Fatal(http.ListenAndServeTLS(address, flags["tls-cert-file"], flags["tls-private-key-file"], handler))
	}
}
