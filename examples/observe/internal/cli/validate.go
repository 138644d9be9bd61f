package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"
)

// complete sets the fields of s that follow from the arguments. dash is the
// number of arguments before "--", or -1 without "--".
func (s *settings) complete(args []string, dash int) error {
	if dash >= 0 {
		args, s.command = args[:dash], args[dash:]
		if len(s.command) == 0 {
			return errors.New("there is no command after --")
		}
	}
	switch len(args) {
	case 0:
		return errors.New("you must specify at least one argument containing the resource to observe, such as services")
	case 1:
		s.resource = args[0]
	default:
		return fmt.Errorf("unexpected argument %q: put -- between the resource and the command", args[1])
	}
	if strings.ContainsAny(s.resource, "/,") {
		return fmt.Errorf("RESOURCE is %q: must be one resource without a name; "+
			"use --field-selector=metadata.name=NAME for a single object",
			s.resource)
	}
	if s.strict {
		s.allowMissing = false
	}
	if format, text, ok := strings.Cut(s.output, "="); ok {
		s.output, s.templates = format, append(s.templates, text)
	}
	if len(s.arguments) > 0 && len(s.templates) > 0 {
		return errors.New("--argument and --template cannot be used together (oc would drop --template): use --template")
	}
	return nil
}

// templateTexts returns the texts of the templates, one per argument.
func (s *settings) templateTexts() []string {
	if len(s.arguments) > 0 {
		return []string{strings.Join(s.arguments, " ")}
	}
	return s.templates
}

// validate returns the mistakes in the settings, joined. It is called before
// any command runs.
func (s *settings) validate() error {
	errs := s.validateNumbers()
	if len(s.names) > 0 && len(s.delete) == 0 {
		errs = append(errs, errors.New("--delete and --names must both be specified: "+
			"--delete runs for the names of objects that do not exist"))
	}
	if _, err := labels.Parse(s.selector); err != nil {
		errs = append(errs, fmt.Errorf("--selector is %q: %w", s.selector, err))
	}
	if _, err := fields.ParseSelector(s.fieldSelector); err != nil {
		errs = append(errs, fmt.Errorf("--field-selector is %q: %w", s.fieldSelector, err))
	}
	if s.logFormat != "text" && s.logFormat != "json" {
		errs = append(errs, fmt.Errorf("--log-format is %q: must be text or json", s.logFormat))
	}
	if _, _, err := net.SplitHostPort(s.listenAddr); s.listenAddr != "" && err != nil {
		errs = append(errs, fmt.Errorf("--listen-addr is %q: %w", s.listenAddr, err))
	}
	if _, err := clientcmd.ParseTimeout(*s.connection.Timeout); err != nil {
		errs = append(errs, fmt.Errorf("--request-timeout is %q: must be a duration such as 30s", *s.connection.Timeout))
	}
	if s.lease != "" && strings.Count(s.lease, "/") != 1 {
		errs = append(errs, fmt.Errorf("--lease is %q: must be NAMESPACE/NAME", s.lease))
	}
	for _, name := range s.unelected { // several replicas would run the commands
		errs = append(errs,
			fmt.Errorf("--%s is set: must be used with --leader-elect, without which there is no Lease", name))
	}
	for flag, name := range map[string]string{"type-env-var": s.typeVariable, "object-env-var": s.objectVariable} {
		if name != "" && len(validation.IsEnvVarName(name)) > 0 {
			errs = append(errs, fmt.Errorf("--%s is %q: must be the name of an environment variable", flag, name))
		}
	}
	for _, c := range []struct {
		flag    string
		command []string
	}{{"COMMAND", s.command}, {"--delete", s.delete}, {"--names", s.names}} {
		errs = append(errs, findable(c.flag, c.command))
	}
	return errors.Join(errs...)
}

func (s *settings) validateNumbers() []error {
	var errs []error
	for _, n := range []struct {
		flag           string
		value, minimum int
	}{
		{"maximum-errors", s.maximumErrors, -1},
		{"max-orphans", s.maxOrphans, -1},
		{"retry-count", s.retryCount, 0},
		{"retry-on-exit-code", s.retryOnExitCode, 0},
		{"workers", s.workers, 1},
	} {
		if n.value < n.minimum {
			errs = append(errs, fmt.Errorf("--%s is %d: must be at least %d", n.flag, n.value, n.minimum))
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
			errs = append(errs, fmt.Errorf("--%s is %v: must not be negative", d.flag, d.value))
		}
	}
	return errs
}

// findable returns an error if the program in command cannot be run. flag is
// the setting that names the program.
func findable(flag string, command []string) error {
	if len(command) == 0 {
		return nil
	}
	program := command[0]
	_, err := exec.LookPath(program)
	if err == nil {
		return nil
	}
	info, missing := os.Stat(program)
	switch exists := missing == nil && !info.IsDir(); {
	case exists && filepath.Base(program) == program:
		return fmt.Errorf("%s: %w: for the file in this directory use ./%s", flag, err, program)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s: %w: make the file executable (chmod +x %s)", flag, err, program)
	case !exists && strings.Contains(program, " ") && flag == "COMMAND":
		return fmt.Errorf("%s: %w: commands run without a shell: leave out the quotes around the command", flag, err)
	case !exists && strings.Contains(program, " "):
		return fmt.Errorf("%s: %w: commands run without a shell: give each argument a %[1]s of its own", flag, err)
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// warnings returns warnings about settings that are allowed but rarely
// intended.
func (s *settings) warnings() []string {
	var list []string
	if len(s.delete) > 0 && len(s.names) == 0 {
		list = append(list, "--delete without --names misses objects that are deleted while this program is not running")
	}
	if len(s.arguments) > 1 {
		list = append(list, "several --argument flags make one argument, as in oc: use --template for an argument each")
	}
	jsonpath := slices.Contains([]string{"jsonpath", "jsonpath-as-json", "json"}, s.output)
	for _, text := range s.templateTexts() {
		if jsonpath && text != "" && !strings.Contains(text, "{") {
			list = append(list, fmt.Sprintf("template %q has no {...}: every command gets this text unchanged", text))
		}
	}
	return list
}
