package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, Key, Value string
}

// exploration is one test's report of its exploration. seconds is its processor
// time.
type exploration struct {
	runs, tried, planned, pairs, calls, writes, events int
	seconds, load                                      float64
}

// measured contains the measurements that the tests have reported.
type measured struct {
	bugs     []string // rows of the zoo
	twins    []exploration
	explored map[string]exploration // the explorations, by the title of the row
	loads    []float64              // the load of the machine during each test of the zoo
}

var (
	bugRow = regexp.MustCompile(`^ *zoo_test\.go:\d+: (\| .* \| \d+ \| \d+ \| [0-9.]+ s \|)$`)
	twin   = regexp.MustCompile(`^ *zoo_test\.go:\d+: (\d+ runs: .*), in `)
)

// read reads events to their end, and returns the measurements in them. load
// returns the load of the machine. A test that fails is an error.
func read(r io.Reader, load func() float64) (*measured, error) {
	m := &measured{explored: map[string]exploration{}}
	began := map[string]exploration{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading the output of go test -json: %w", err)
		}
		switch test := e.Package + " " + e.Test; {
		case e.Action == "fail":
			return nil, fmt.Errorf("test %s failed", strings.TrimSpace(test))
		case e.Action == "attr" && e.Key == "reconciletest":
			x, err := parse(e.Value)
			if err != nil {
				return nil, fmt.Errorf("reading the output of %s: %w", test, err)
			}
			x.load = load()
			began[test] = x
		case e.Action == "attr" && e.Key == "reconciletest-processor":
			x := began[test]
			took, err := time.ParseDuration(e.Value)
			if err != nil || took <= 0 {
				return nil, fmt.Errorf("reading the output of %s: %q is not a processor time", test, e.Value)
			}
			x.seconds = took.Seconds()
			m.explored[title(e.Package, e.Test)] = x
		case e.Action == "output":
			if err := m.zoo(&e, load); err != nil {
				return nil, err
			}
		}
	}
	return m, lines.Err()
}

// zoo records a line of output of the zoo's test, if the line is about a bug or
// its twin.
func (m *measured) zoo(e *event, load func() float64) error {
	line := strings.TrimRight(e.Output, "\n")
	if row := bugRow.FindStringSubmatch(line); row != nil && strings.HasSuffix(e.Test, "/bug") {
		m.bugs = append(m.bugs, row[1])
		m.loads = append(m.loads, load())
	}
	if text := twin.FindStringSubmatch(line); text != nil && strings.Contains(e.Test, "/twin") {
		x, err := parse(text[1])
		if err != nil {
			return fmt.Errorf("reading the output of %s: %w", e.Test, err)
		}
		m.twins = append(m.twins, x)
	}
	return nil
}

// parse parses the summary of a report; see reconciletest.Report.
func parse(text string) (x exploration, err error) {
	numbers := regexp.MustCompile(`\d+`).FindAllString(text, 8) // the fourth is a percentage
	if len(numbers) < 8 {
		return x, fmt.Errorf("%q is not a summary of an exploration", text)
	}
	for i, field := range []*int{&x.runs, &x.tried, &x.planned, new(int), &x.pairs, &x.calls, &x.writes, &x.events} {
		if *field, err = strconv.Atoi(numbers[i]); err != nil {
			return x, err
		}
	}
	if x.tried < x.planned {
		err = fmt.Errorf("%q: some single faults were not tried", text)
	}
	return x, err
}

// cases are the titles of the reboot operator's cases, by test.
var cases = map[string]string{
	"TestExploreOneLeads": "two replicas, one leads",
	"TestExploreBothWork": "two controllers that both work, real agents",
	"TestExploreDuel":     "two controllers that both work",
	"TestExploreTwins":    "everything twice, the agent of a node, too",
	"TestExploreRevoking": "a group that is paused",
	"TestExploreMeddling": "an administrator cordons a node and calls its reboot off",
	"TestExploreFailing":  "a node fails, and there is no group",
}

// title returns the title of a test's row: the name of the example or of the
// case.
func title(pkg, test string) string {
	if name, ok := cases[test]; ok {
		return name
	}
	parts := strings.Split(pkg, "/")
	return parts[min(slices.Index(parts, "examples")+1, len(parts)-1)]
}
