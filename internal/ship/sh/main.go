// Command sh is the shell in the image of observe, for its scripts. It has two
// forms, and only built-in commands:
//
//	sh FILE [ARGUMENT...]
//	sh -c TEXT [NAME [ARGUMENT...]]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	var status interp.ExitStatus
	switch {
	case errors.As(err, &status):
		os.Exit(int(status))
	case err != nil:
		fmt.Fprintln(os.Stderr, "sh:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, out, log io.Writer) error {
	var text, name string
	switch {
	case len(args) > 1 && args[0] == "-c":
		text, name, args = args[1], "sh", args[2:]
		if len(args) > 0 {
			name, args = args[0], args[1:]
		}
	case len(args) > 0 && !strings.HasPrefix(args[0], "-"):
		content, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		text, name, args = string(content), args[0], args[1:]
	default:
		return errors.New("usage: sh FILE [ARGUMENT...], or sh -c TEXT [NAME [ARGUMENT...]]")
	}
	script, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), name)
	if err != nil {
		return err
	}
	shell, err := interp.New(interp.StdIO(stdin, out, log), interp.Params(append([]string{"--"}, args...)...))
	if err != nil {
		return err
	}
	return shell.Run(ctx, script)
}
