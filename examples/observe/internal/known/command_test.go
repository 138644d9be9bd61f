//go:build unix

package known_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/observe/internal/known"
	"github.com/homeostat/homeostat/names"
)

// patience bounds waits for real processes.
const patience = time.Minute

// printed lists the names that a script prints.
func printed(script string, env ...string) names.Lister {
	return known.Command(known.Format{}, append(env, "PATH="+os.Getenv("PATH")), "sh", "-c", script)
}

func TestCommandListsWhatTheProgramPrints(t *testing.T) {
	g := NewWithT(t)
	g.Expect(printed(`echo noise >&2; echo "$ZONE/a `+string(uid1)+`"`, "ZONE=default").Names(t.Context())).To(
		Equal([]names.Name{name("default/a", uid1)}))
	g.Expect(known.Command(known.Format{}, nil, "printf", "%s/%s\n", "default", "$HOME").Names(t.Context())).To(
		Equal([]names.Name{name("default/$HOME", "")}), "there is no shell")
}

func TestCommandHasTheGivenEnvironmentAlone(t *testing.T) {
	t.Setenv("KNOWN_TEST", "leaked")
	NewWithT(t).Expect(printed(`echo "default/${KNOWN_TEST:-clean}"`).Names(t.Context())).To(
		Equal([]names.Name{name("default/clean", "")}))
}

func TestCommandHasNoNamesButAReason(t *testing.T) {
	for what, c := range map[string]struct {
		script string
		says   []string
	}{
		"a failure after some names": {"echo default/a; echo no zone >&2; exit 3", []string{`listing names with "sh": `, "status code 3", "no zone"}},
		"a signal":                   {"echo default/a; kill -9 $$", []string{"killed"}},
		"garbage":                    {"echo hello world", []string{"line 1"}},
		"endless output":             {"while :; do cat /dev/zero; done", []string{"more than 67108864 bytes"}},
	} {
		t.Run(what, func(t *testing.T) {
			g := NewWithT(t)
			all, err := printed(c.script).Names(t.Context())
			for _, says := range c.says {
				g.Expect(err).To(MatchError(ContainSubstring(says)))
			}
			g.Expect(all).To(BeNil())
		})
	}
	_, err := known.Command(known.Format{}, nil, "/does/not/exist").Names(t.Context())
	NewWithT(t).Expect(err).To(MatchError(os.ErrNotExist))
}

func TestTheEndOfTheContextKillsTheProgramWithItsChildren(t *testing.T) {
	g := NewWithT(t)
	child := filepath.Join(t.TempDir(), "child")
	l := printed(`setsid sh -c 'echo $$ >"$CHILD.tmp"; mv "$CHILD.tmp" "$CHILD"; exec sleep 1000' & echo default/a; wait`, "CHILD="+child)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := l.Names(ctx)
		ended <- err
	}()
	g.Eventually(child, patience).Should(BeAnExistingFile())
	late := errors.New("too late")
	cancel(late)
	g.Eventually(ended, patience).Should(Receive(MatchError(late)))
	text, err := os.ReadFile(child)
	g.Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() bool { return alive(pid) }, patience).Should(BeFalse())
}

// alive reports whether there is a process of that id that is not a zombie.
func alive(pid int) bool {
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		if _, state, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(state, "Z") {
			return false
		}
	}
	return syscall.Kill(pid, 0) == nil
}
