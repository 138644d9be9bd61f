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

// Command returns a lister of the names that a program prints. See [Parse] for
// the format. Each call of the lister runs the program without a shell, with
// only the variables of env, and kills it with all its processes when the
// context ends.
//
// The lister returns an error for an exit code other than 0 (with the end of
// standard error), for more than 64 MiB of output, and for an invalid name.
func Command(f Format, env []string, program string, args ...string) names.Lister {
	runner := &command.Runner{Env: env, Grace: 1} // the program only reads, so that it can be killed at once
	call := command.Call{Argv: append([]string{program}, args...)}
	return names.Func(func(ctx context.Context) ([]names.Name, error) {
		found, err := list(ctx, runner, call, f)
		if err != nil {
			return nil, fmt.Errorf("listing names with %q: %w", program, err)
		}
		return found, nil
	})
}

func list(ctx context.Context, runner *command.Runner, call command.Call, f Format) ([]names.Name, error) {
	output, err := runner.Capture(ctx, call, maxOutput)
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), err) // even without err, the output may be incomplete
	}
	if err != nil {
		return nil, err
	}
	return Parse(bytes.NewReader(output), f)
}
