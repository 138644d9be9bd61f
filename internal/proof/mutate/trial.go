package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/homeostat/homeostat/internal/test/overlay"
)

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir, Name string
	GoFiles               []string
	Module                struct{ Path, Dir string }
}

// score contains the numbers of killed and surviving mutants of a package.
type score struct {
	name                       string
	sites, equivalent          int
	killed, timeouts, survived int
	took                       time.Duration
}

// tried returns the number of mutants that compiled.
func (s *score) tried() int { return s.killed + s.survived }

// percent returns the percentage of mutants that a test has found.
func (s *score) percent() float64 { return 100 * float64(s.killed) / float64(max(1, s.tried())) }

func list(ctx context.Context, patterns ...string) ([]listed, error) {
	arguments := append([]string{"list", "-json=ImportPath,Dir,Name,GoFiles,Module"}, patterns...)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	var packages []listed
	for d := json.NewDecoder(out); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		packages = append(packages, p)
	}
	return packages, command.Wait()
}

// trial mutates one package.
type trial struct {
	options
	pkg    listed
	name   string // The path of the package below the root of the module.
	temp   string // A temporary folder.
	out    io.Writer
	suites []*suite // The package's own tests first, then the tests of other packages that test it.

	mu      sync.Mutex // Guards the fields below.
	mutants []*mutant  // The mutants that have not been tried yet.
	score   score
	err     error
}

func (t *trial) run(ctx context.Context) (*score, error) {
	start := time.Now()
	sites, err := t.sites()
	if err != nil {
		return nil, err
	}
	t.score = score{name: t.name, sites: len(sites)}
	if sites, err = t.withoutEquivalents(sites); err != nil {
		return nil, err
	}
	sites = slices.DeleteFunc(sites, func(s *site) bool { return !t.filter.MatchString(s.key()) })
	files, program, err := t.compile(ctx, draw(sites, t.seed))
	if err != nil {
		return nil, err
	}
	if err := t.suites[0].prepare(ctx, program, t.timeout); err != nil {
		return nil, err
	}
	var workers sync.WaitGroup
	for range t.workers {
		workers.Go(func() { t.work(ctx, files) })
	}
	workers.Wait()
	t.score.took = time.Since(start)
	return &t.score, t.err
}

func (t *trial) sites() ([]*site, error) {
	var sites []*site
	for _, name := range t.pkg.GoFiles {
		path := filepath.Join(t.pkg.Dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := sitesOf(path, source)
		if err != nil {
			return nil, err
		}
		sites = append(sites, found...)
	}
	return sites, nil
}

// withoutEquivalents removes the sites for which the package's list has a
// reason. It returns an error if the list has a mutant that does not exist.
func (t *trial) withoutEquivalents(sites []*site) ([]*site, error) {
	path := filepath.Join(t.pkg.Dir, equivalentsFile)
	source, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return sites, nil
	} else if err != nil {
		return nil, err
	}
	known, err := equivalents(string(source))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	t.score.equivalent = len(known)
	rest := slices.DeleteFunc(sites, func(s *site) bool {
		_, ok := known[s.key()]
		delete(known, s.key())
		return ok
	})
	for _, k := range slices.Sorted(maps.Keys(known)) {
		return nil, fmt.Errorf("%s lists a mutant that does not exist:\n%s", path, k)
	}
	return rest, nil
}

// work takes mutants that have not been tried yet, one after the other, and
// tries them until none is left. An error ends the work of all callers.
func (t *trial) work(ctx context.Context, files overlay.Files) {
	for {
		m := t.next()
		if m == nil {
			return
		}
		killed, err := t.try(ctx, files, m)
		t.mu.Lock()
		switch {
		case ctx.Err() != nil: // Concurrent builds and runs were cut off.
			t.err, t.mutants = ctx.Err(), nil
		case errors.Is(err, errTimeout):
			t.score.killed++
			t.score.timeouts++
		case err != nil:
			t.err, t.mutants = errors.Join(t.err, err), nil
		case killed:
			t.score.killed++
		default:
			t.score.survived++
			printSurvivor(t.out, m.site)
		}
		t.mu.Unlock()
	}
}

func (t *trial) next() *mutant {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mutants) == 0 {
		return nil
	}
	m := t.mutants[0]
	t.mutants = t.mutants[1:]
	return m
}

// try reports whether a test finds the mutant. files contain all mutants.
func (t *trial) try(ctx context.Context, files overlay.Files, m *mutant) (killed bool, err error) {
	for i, s := range t.suites {
		if i > 0 {
			if err := s.build(ctx, files, t.timeout); err != nil {
				return false, err
			}
		}
		if killed, err = s.kills(ctx, m); killed || err != nil {
			return killed, err
		}
	}
	return false, nil
}
