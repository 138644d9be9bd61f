package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/discovery"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/examples/observe/internal/resource"
	"github.com/homeostat/homeostat/operator"
)

// helpWidth is the line width of the help.
const helpWidth = 110

const longHelp = `Run a command for every object of a kind, and again whenever one changes.

RESOURCE is anything the cluster can list and watch: plural, singular, kind or
short name, NAME.GROUP or NAME.VERSION.GROUP. COMMAND gets its own arguments,
then the namespace (of namespaced kinds), the name, and one argument for each
--template. It runs without a shell. It should work regardless of what it did
before: it runs again after every change, after a failure until it succeeds,
and when this program is started again.

Without COMMAND, changes are shown (deletions with --delete only).`

const examples = `  # show services, and their changes
  %[1]s services -A

  # show the address of each, too
  %[1]s services -A --template '{.spec.clusterIP}'

  # run a script for each
  %[1]s services -A --template '{.spec.clusterIP}' -- ./record.sh

  # run another script for deleted ones, even for those that were deleted while this program was not running
  %[1]s services -A --names ./known.sh --delete ./forget.sh -- ./record.sh

  # run once, with the object as JSON on standard input (sh -c ignores the arguments that are added)
  %[1]s namespaces --once --stdin -- sh -c 'grep -o creationTimestamp.*Z'`

const usage = "RESOURCE [flags] [-- COMMAND [ARG...]]"

// newCommand returns the root command. name is the name that users type, such
// as "kubectl observe". The program's file has a dash instead of the blank, and
// shells complete the name of the file.
func newCommand(name string, stdout, stderr *command.Output) *cobra.Command {
	s := &settings{connection: newConnection()}
	groups := s.groups()
	c := &cobra.Command{
		Use:     strings.ReplaceAll(name, " ", "-") + " " + usage,
		Short:   "Run a command for every object of a kind, and again whenever one changes",
		Long:    longHelp,
		Example: fmt.Sprintf(examples, name),
		Version: operator.Version(),
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			s.listenAddrIsGiven = c.Flags().Changed("listen-addr")
			c.Flags().Visit(func(f *pflag.Flag) {
				if isOfLease(f.Name) && !c.Flags().Changed("leader-elect") {
					s.unelected = append(s.unelected, f.Name)
				}
			})
			return s.run(args, c.ArgsLenAtDash(), stdout, stderr)
		},
		ValidArgsFunction: s.connection.completeResource,
		SilenceErrors:     true, SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: name},
	}
	for _, g := range groups {
		c.Flags().AddFlagSet(g.flags)
	}
	c.Flags().SortFlags = false
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w (see --help)", err) })
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { help(c, groups) })
	c.SetVersionTemplate("{{.DisplayName}} {{.Version}}\n")
	c.CompletionOptions.DisableDefaultCmd = true
	c.AddCommand(completion(c))
	return c
}

// help writes the flags in their groups.
func help(c *cobra.Command, groups []group) {
	w := c.OutOrStdout()
	_, _ = fmt.Fprintf(w, "%s\n\nUsage:\n  %s %s\n\nExamples:\n%s\n", c.Long, c.DisplayName(), usage, c.Example)
	for _, g := range groups {
		_, _ = fmt.Fprintf(w, "\n%s:\n%s", g.title, g.flags.FlagUsagesWrapped(helpWidth))
	}
	_, _ = fmt.Fprintf(w, "\nExit codes: 0 ended as requested, 1 failed, 2 and 3: see --once.\n")
}

// completion returns the command that writes completion scripts for shells.
func completion(root *cobra.Command) *cobra.Command {
	shells := map[string]func(io.Writer) error{
		"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        root.GenZshCompletion,
		"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": root.GenPowerShellCompletionWithDesc,
	}
	c := &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a script that completes this command in a shell",
		Long: fmt.Sprintf("Write a script that completes this command:\n\n  source <(%s completion bash)",
			root.Name()),
		DisableFlagsInUseLine: true,
		ValidArgs:             []string{"bash", "zsh", "fish", "powershell"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || shells[args[0]] == nil {
				return errors.New("the arguments must name a shell: bash, zsh, fish or powershell")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return shells[args[0]](c.OutOrStdout()) },
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		_, _ = fmt.Fprintf(c.OutOrStdout(), "%s\n\nUsage:\n  %s\n", c.Long, c.UseLine())
	})
	return c
}

// completeResource returns the names of the server's resources that begin with
// prefix. For the arguments after the resource, the shell completes file names.
func (c *connection) completeResource(_ *cobra.Command, args []string, prefix string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // the command is completed as a file
	}
	config, _, err := c.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names, err := resource.Names(server)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var fitting []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			fitting = append(fitting, name)
		}
	}
	return fitting, cobra.ShellCompDirectiveNoFileComp
}
