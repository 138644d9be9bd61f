// Package results stores the results of explorations of published controllers.
// Package page makes docs/proof.md from them.
package results

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Variable is the environment variable with the absolute path of the file to
// which [Search] adds results. If it is empty, results are not stored.
const Variable = "PROOF_RESULTS"

// Result is one exploration, a line of JSON in the file. Its durations are in
// seconds.
type Result struct {
	// Test is the name of the test that explored. Together with the version it
	// identifies the exploration.
	Test string `json:"test"`
	// Module is the last element of the module's path, without a major version.
	Module  string `json:"module"`
	Version string `json:"version"`
	// Calls is the number of calls in the run without faults.
	Calls int `json:"calls"`
	// Runs is the number of all runs. Planned is the number of runs with a
	// single deviation that were planned, and Tried the number of them that
	// were made. Pairs is the number of runs with two deviations.
	Runs    int `json:"runs"`
	Planned int `json:"planned"`
	Tried   int `json:"tried"`
	Pairs   int `json:"pairs"`
	// Known is the number of runs with a finding that the test accepts.
	Known int `json:"known"`
	// Ended is true if the exploration ended before its budget was used up.
	Ended bool `json:"ended"`
	// Elapsed is how many seconds the exploration took. Processor is how many
	// seconds of processor time it used. Both are rounded to tenths.
	Elapsed   float64 `json:"elapsed"`
	Processor float64 `json:"processor"`
	// Oracle is the oracle that found Failure, and Lines is the length of the
	// trace. They are empty without a finding.
	Oracle  string `json:"oracle,omitempty"`
	Lines   int    `json:"lines,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// Deviations returns the number of runs with one or two deviations.
func (r *Result) Deviations() int { return r.Tried + r.Pairs }

// usual lists texts of two findings that nearly every published controller has:
// the controller treats any 404 to a deletion as the proof that the object is
// deleted, and one object that Go cannot decode stops a typed cache.
var usual = []string{"taken for its deletion", "stops its whole kind"}

// Search explores a case as [reconciletest.Search] does, and stores the result.
// controller is a function of the module under test, and o has a Budget. Search
// tolerates the findings that nearly every controller has.
func Search(
	t *testing.T, controller any, c *reconciletest.Case, o *reconciletest.Options,
) *reconciletest.Report {
	t.Helper()
	module, version := Version(t, controller)
	start := processor(t)
	options := *o
	options.KnownFindings = slices.Concat(o.KnownFindings, usual)
	r := reconciletest.Search(t, c, &options)
	used := processor(t) - start
	t.Logf("%s %s: %v in %v\n%s", module, version, r, r.Elapsed.Round(time.Second/10), r.Failure)
	keep(t, &Result{
		Test: t.Name(), Module: module, Version: version,
		Calls: r.Calls, Runs: r.Runs, Planned: r.Planned, Tried: r.Tried, Pairs: r.Pairs, Known: r.KnownFindings,
		Ended: r.Elapsed < o.Budget, Elapsed: tenths(r.Elapsed), Processor: tenths(used),
		Oracle: r.Oracle, Lines: len(r.Trace), Failure: r.Failure,
	})
	return r
}

// keep adds r as a line to the file whose path is in the environment variable
// PROOF_RESULTS; see [Variable]. It does nothing if the variable is not set.
func keep(t *testing.T, r *Result) {
	t.Helper()
	name := os.Getenv(Variable)
	if name == "" {
		return
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("recording a result: %v", err)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0) // make proof has created the file
	if err != nil {
		t.Fatalf("recording a result: %v: run make proof, which creates the file named by %s", err, Variable)
	}
	_, err = file.Write(append(line, '\n'))
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		t.Fatalf("recording a result: %v", err)
	}
}

// versionOf matches the last element of a module's path and the version in the
// name of a file of the module cache. It leaves out a major version, which may
// follow that element: example.com/disks/v8@v8.6.0 is disks.
var versionOf = regexp.MustCompile(`([^/@]+?)(?:/v[0-9]+)?@(v[0-9][^/]*)`)

// Version returns the module and the version of a function. It reads them from
// the name of the function's file, because a test program does not record them.
func Version(t *testing.T, function any) (module, version string) {
	t.Helper()
	pc := reflect.ValueOf(function).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	found := versionOf.FindStringSubmatch(file)
	if found == nil {
		t.Fatalf("reading the version of a controller: %q is not in the folder of a module's version", file)
	}
	return found[1], found[2]
}

// processor returns the processor time that this process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatalf("reading the processor time: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// tenths returns d in seconds, rounded to tenths.
func tenths(d time.Duration) float64 { return float64(d.Round(time.Second/10)/(time.Second/10)) / 10 }
