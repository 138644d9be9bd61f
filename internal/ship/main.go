package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

const usage = `usage: ship images    [-root DIR] [-commit COMMIT] [-out DIR] [-platforms LIST] [PROGRAM...]
       ship image     [-root DIR] [-out DIR] [-platforms LIST] PACKAGE   of any other module in DIR
       ship push      [-out DIR] -to REGISTRY [PROGRAM...]
       ship unpack    [-out DIR] [-platforms ONE] -into DIR [PROGRAM...]
       ship notes     [-root DIR] -tag TAG
       ship manifests [-root DIR] [-tag TAG] [-check | -into DIR] [PROGRAM...]
       ship charts    [-root DIR] [-tag TAG] -into DIR [PROGRAM...]
       ship push-charts -into DIR -to REGISTRY [PROGRAM...]
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ship:", err)
		os.Exit(1)
	}
}

// settings are the flags of all commands.
type settings struct {
	root, commit, out, platforms, registry, tag, into string
	check                                             bool
}

// parse reads the flags of a command, and returns the arguments after them.
func parse(command string, args []string) (s settings, rest []string, err error) {
	f := flag.NewFlagSet("ship "+command, flag.ContinueOnError)
	f.StringVar(&s.root, "root", ".", "`directory` of the module")
	f.StringVar(&s.commit, "commit", "", "`commit` to build; by default, the root as it is")
	f.StringVar(&s.out, "out", "dist/images", "`directory` of the OCI layouts, one for each program")
	f.StringVar(&s.platforms, "platforms", "linux/amd64,linux/arm64", "`list` of platforms")
	f.StringVar(&s.registry, "to", "", "`registry` and path, such as ghcr.io/homeostat")
	f.StringVar(&s.tag, "tag", "", "`tag` of the images; by default the version that is built or was released")
	f.StringVar(&s.into, "into", "", "`directory` of unpacked images, and of manifests if not beside the kustomizations")
	f.BoolVar(&s.check, "check", false, "write nothing, and fail if something would change")
	err = f.Parse(args)
	return s, f.Args(), err
}

func run(ctx context.Context, args []string, log io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	s, rest, err := parse(args[0], args[1:])
	if err != nil {
		return err
	}
	switch args[0] {
	case "images":
		chosen, err := choose(rest)
		if err != nil {
			return err
		}
		return images(ctx, s, chosen, log)
	case "image":
		if len(rest) != 1 {
			return fmt.Errorf("want one package\n%s", usage)
		}
		root, err := filepath.Abs(s.root)
		if err != nil {
			return err
		}
		return images(ctx, s, []program{{name: nameOf(root, rest[0]), source: rest[0]}}, log)
	case "push":
		chosen, err := choose(rest)
		if err != nil {
			return err
		}
		return push(ctx, s, chosen, log)
	case "unpack":
		chosen, err := choose(rest)
		if err != nil {
			return err
		}
		return unpack(s, chosen)
	case "notes":
		return notes(s, log)
	case "manifests":
		return manifests(s, rest, log)
	case "charts":
		return charts(s, rest, log)
	case "push-charts":
		return pushCharts(ctx, s, rest, log)
	default:
		return fmt.Errorf("unknown command %q\n%s", args[0], usage)
	}
}

// nameOf returns the name of the program in a package of a module in root.
func nameOf(root, source string) string {
	if name := filepath.Base(filepath.Clean(source)); name != "." {
		return name
	}
	return filepath.Base(root)
}
