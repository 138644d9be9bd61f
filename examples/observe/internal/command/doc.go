// Package command runs a program and returns when it and its processes have
// ended:
//
//	runner := &command.Runner{Env: env, Timeout: time.Minute, Stdout: out, Stderr: errOut}
//	err := runner.Run(ctx, command.Call{Argv: []string{"./script.sh", "namespace", "name"}})
//
//	argv, environment, stdin ──▶ process group ──lines──▶ Output (shared, one line at a time)
//	                                  ▲
//	       timeout, end of the context: SIGTERM, then SIGKILL after a grace period
//
// The contract:
//
//   - There is no shell. Arguments reach the program unchanged.
//   - A run leaves no processes behind. The rest of the process group is
//     killed, and on Linux the kernel kills the program if this process dies.
//   - Output is passed on while the program runs, in constant memory. Lines of
//     programs that run at the same time are not mixed.
package command
