package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// complete takes the arguments. Dash is how many of them are before "--", -1 if
// there is none.
func (s *settings) complete(args []string, dash int) error {
	if dash >= 0 {
		args, s.each = args[:dash], args[dash:]
		if len(s.each) == 0 {
			return errors.New("there is no command after --")
		}
	}
	switch len(args) {
	case 0:
		return errors.New("you must specify the resource to observe, such as services")
	case 1:
		s.resource = args[0]
	default:
		return fmt.Errorf("unexpected argument %q: put -- between the resource and the command", args[1])
	}
	if s.strict {
		s.allowMissing = false
	}
	if format, text, ok := strings.Cut(s.output, "="); ok {
		s.output, s.templates = format, append(s.templates, text)
	}
	return nil
}

// validate finds what is wrong before anything happens.
func (s *settings) validate() error {
	faults := s.validateNumbers()
	if len(s.names) > 0 && len(s.delete) == 0 {
		faults = append(faults, errors.New("--names needs --delete: it says what to do about names that are gone"))
	}
	if _, err := labels.Parse(s.selector); err != nil {
		faults = append(faults, fmt.Errorf("--selector is %q: %w", s.selector, err))
	}
	if _, err := fields.ParseSelector(s.fieldSelector); err != nil {
		faults = append(faults, fmt.Errorf("--field-selector is %q: %w", s.fieldSelector, err))
	}
	if s.logFormat != "text" && s.logFormat != "json" {
		faults = append(faults, fmt.Errorf("--log-format is %q: must be text or json", s.logFormat))
	}
	if s.lease != "" && strings.Count(s.lease, "/") != 1 {
		faults = append(faults, fmt.Errorf("--lease is %q: must be NAMESPACE/NAME", s.lease))
	}
	for flag, name := range map[string]string{"type-env-var": s.typeVariable, "object-env-var": s.objectVariable} {
		if name != "" && len(validation.IsEnvVarName(name)) > 0 {
			faults = append(faults, fmt.Errorf("--%s is %q: must be the name of a variable", flag, name))
		}
	}
	for _, command := range [][]string{s.each, s.delete, s.names} {
		faults = append(faults, findable(command))
	}
	return errors.Join(faults...)
}

func (s *settings) validateNumbers() []error {
	var faults []error
	for _, n := range []struct {
		flag        string
		value, from int
	}{
		{"maximum-errors", s.maximumErrors, -1},
		{"max-orphans", s.maxOrphans, -1},
		{"retry-count", s.retryCount, 0},
		{"retry-on-exit-code", s.retryOnExitCode, 0},
		{"workers", s.workers, 1},
	} {
		if n.value < n.from {
			faults = append(faults, fmt.Errorf("--%s is %d: must be at least %d", n.flag, n.value, n.from))
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"timeout", s.timeout},
		{"grace-period", s.gracePeriod},
		{"min-interval", s.minInterval},
		{"resync-period", s.resync},
		{"exit-after", s.exitAfter},
	} {
		if d.value < 0 {
			faults = append(faults, fmt.Errorf("--%s is %v: must not be negative", d.flag, d.value))
		}
	}
	return faults
}

// findable tells whether a program can be run.
func findable(command []string) error {
	if len(command) == 0 {
		return nil
	}
	_, err := exec.LookPath(command[0])
	if err == nil {
		return nil
	}
	if info, here := os.Stat(command[0]); here == nil && !info.IsDir() && filepath.Base(command[0]) == command[0] {
		return fmt.Errorf("%w: for the file in this directory use ./%s", err, command[0])
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: make it executable (chmod +x %s)", err, command[0])
	}
	return err
}

// warnings are about what is allowed and rarely meant.
func (s *settings) warnings() []string {
	var all []string
	if len(s.delete) > 0 && len(s.names) == 0 {
		all = append(all, "--delete without --names misses objects that go while this does not run")
	}
	jsonpath := slices.Contains([]string{"jsonpath", "json"}, s.output)
	for _, text := range s.templates {
		if jsonpath && text != "" && !strings.Contains(text, "{") {
			all = append(all, fmt.Sprintf("template %q has no {...}: every command gets these very words", text))
		}
	}
	return all
}
