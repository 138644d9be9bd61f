// Package command runs a program and returns when it and its processes have
// ended.
//
//		argv, environment, stdin ──▶ process group ──lines──▶ Output (shared, one line at a time)
//		                                  ▲
//		       timeout, end of the context: SIGTERM, then SIGKILL after a grace period
//
//	  - There is no shell: arguments reach the program as they are.
//	  - Nothing of a run outlives it: the rest of the process group is killed,
//	    and the kernel kills the program if this process dies (Linux).
//	  - Output is passed on while the program runs, in constant memory. Lines of
//	    programs that run at the same time are not mixed.
package command
