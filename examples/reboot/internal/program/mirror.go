package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
)

// Mirror is the argument with which the program only mirrors a file. The mirror
// runs without privileges in its own container. Only this container sees the
// host's /run. So the agent's container, although it runs as root, does not
// need to see /run and the sockets of the container runtime there.
const Mirror = "mirror"

// RunMirror mirrors the file until SIGTERM or SIGINT. It returns the exit code:
// 0 after such a signal and for -help, 2 for a wrong command line.
func RunMirror(args []string) int {
	fs := flag.NewFlagSet("reboot-agent mirror", flag.ContinueOnError)
	source := fs.String("from", "", "the `file` of the host that requests a reboot, such as /host/run/reboot-required")
	target := fs.String("to", "", "the `file` to keep while the file of the host exists, with the same modification time")
	period := fs.Duration("period", agent.DefaultAskPeriod, "how often to check whether the file of the host exists")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *source == "" || *target == "" || *period <= 0 || fs.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "reboot-agent mirror: --from and --to must name files, --period must be more than 0, "+
			"and there must be no further arguments")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ticks := time.Tick(*period)
	for {
		if err := machine.Sentinel(*source).Mirror(*target); err != nil {
			fmt.Fprintf(os.Stderr, "reboot-agent mirror: %v, retrying\n", err)
		}
		select {
		case <-ctx.Done():
			return 0
		case <-ticks:
		}
	}
}
