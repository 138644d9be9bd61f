package cli

import (
	"time"

	"github.com/homeostat/homeostat/leader"
)

// settings contains the values of the flags and arguments.
type settings struct {
	resource string
	command  []string

	allNamespaces           bool
	selector, fieldSelector string
	wait                    bool

	arguments, templates                []string
	output                              string
	allowMissing, strict                bool
	typeVariable, objectVariable        string
	identity, stdin, allowLeadingDashes bool
	env                                 []string

	delete, names []string
	maxOrphans    int

	workers                                   int
	timeout, gracePeriod, minInterval, resync time.Duration
	dryRun                                    bool

	maximumErrors, retryCount, retryOnExitCode int

	runOnce     bool
	exitAfter   time.Duration
	leaderElect bool
	lease       string
	durations   leader.Options // the durations of the Lease; zero means the default
	unelected   []string       // flags about the Lease that are given without --leader-elect

	quiet              bool
	listenAddr         string
	listenAddrIsGiven  bool
	printMetricsOnExit bool
	logFormat          string
	verbosity          int

	connection *connection
}
