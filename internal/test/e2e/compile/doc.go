// Package compile builds bin/controlplane from the module
// internal/proof/controlplane:
//
//	path, err := compile.ControlPlane(ctx, os.Stderr)
//
// The first build compiles all of Kubernetes. That takes minutes, during which
// a person wants to see progress; later builds take seconds. This package needs
// only the standard library. So it compiles at once.
//
//   - The program is built if it is missing or older than its sources, not
//     counting tests.
//   - If several processes need it at the same time, one builds it and the
//     others wait.
//   - KUBERNETES=1.35 in the environment builds another version as
//     bin/controlplane-1.35.
//   - Progress is at least one line every ten seconds: the number of fetched
//     modules, the number of compiled packages, or that the program is linked.
//   - An error has the command and the last lines of its output.
package compile
