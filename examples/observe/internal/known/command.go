package known

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/names"
)

// maxOutput is how many bytes a command may print.
const maxOutput = 64 << 20

// Command lists the names that a program prints; see [Parse] for the format.
// The program is run each time, without a shell, in the environment of env
// alone, and is killed with all its processes when the context ends.
//
// Errors: an exit code other than 0 (with the end of standard error), more than
// 64 MiB of output, an invalid name.
func Command(f Format, env []string, program string, args ...string) names.Lister {
	runner := &command.Runner{Env: env, Grace: 1} // it only reads: nothing is lost if it is killed at once
	call := command.Call{Argv: append([]string{program}, args...)}
	return names.Func(func(ctx context.Context) ([]names.Name, error) {
		all, err := list(ctx, runner, call, f)
		if err != nil {
			return nil, fmt.Errorf("listing names with %q: %w", program, err)
		}
		return all, nil
	})
}

func list(ctx context.Context, runner *command.Runner, call command.Call, f Format) ([]names.Name, error) {
	output, err := runner.Capture(ctx, call, maxOutput)
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), err) // even without err: it may not have printed all
	}
	if err != nil {
		return nil, err
	}
	return Parse(bytes.NewReader(output), f)
}
