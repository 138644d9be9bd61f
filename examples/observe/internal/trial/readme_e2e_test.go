//go:build e2e

package trial_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// walkThrough returns the commands of README.md's walk-through, in order.
// Commands that set up things that the suite already has are in a different
// kind of block.
func walkThrough() string {
	GinkgoHelper()
	text, err := os.ReadFile("../../README.md")
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(text), "\n## Walk-through\n")
	Expect(found).To(BeTrue())
	section, _, _ = strings.Cut(section, "\n## ")
	var commands strings.Builder
	for {
		_, block, found := strings.Cut(section, "\n```sh\n")
		if !found {
			return commands.String()
		}
		block, section, _ = strings.Cut(block, "```")
		commands.WriteString(block)
	}
}

var _ = Describe("README.md", Serial, func() {
	It("has a walk-through that does what it says", func() {
		Expect(os.Symlink(binary, filepath.Join(tools, "observe"))).To(Succeed())
		commands := walkThrough()
		for _, r := range [][2]string{ // where people wait for a while, this waits for the result
			{"/tmp/", "$TMP/"},
			{"services -A", "services -n default"}, // other specs leave thousands elsewhere
			{"observe namespaces", "observe namespaces --field-selector=metadata.name=default"},
			{"echo hello &", "echo hello >$TMP/log &"},
			{"sleep 2", "until grep -q 'Sync ended' $TMP/log; do sleep 0.05; done"},
			{"kubectl annotate", "until grep -q 'Added' $TMP/log; do sleep 0.05; done; kubectl annotate"},
			{"sleep 1\n", "until grep -q 'Updated' $TMP/log; do sleep 0.05; done; cat $TMP/log\n"},
		} {
			Expect(commands).To(ContainSubstring(r[0]))
			commands = strings.ReplaceAll(commands, r[0], r[1])
		}
		// The server is a job of the same terminal.
		commands = "sleep 1000 >/dev/null 2>&1 &\nserver=$!\n" + commands + "kill $server\n"
		c := command(cluster.Kubeconfig(), "sh", "-eu", "-c", commands)
		c.Env = append(c.Env, "TMP="+GinkgoT().TempDir())
		c.Dir = scripts
		s := started(c)
		Eventually(s, patience).Should(gexec.Exit(0))
		for _, part := range []string{
			line("Sync", "default kubernetes"),
			line("Added", "echo hello default web") + "\nhello default web\n",
			line("Updated", "echo hello default web"),
			`(?m)^default web 10\.\S+$`,
			`(?m)^default/web 10\.\S+$`,
			`ingress.networking.k8s.io/web created`,
			`(?m)^default +web `,
			`Deleted \t\S+delete.sh default web`,
			`(?m)^exit code 2$`,
			`(?m)^exit code 3$`,
		} {
			Expect(out(s)).To(MatchRegexp(part))
		}
		_, last, _ := strings.Cut(out(s), "Deleted")
		Expect(last).NotTo(MatchRegexp(`(?m)^default +web `), "web is gone")
	})
})
