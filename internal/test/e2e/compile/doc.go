// Package compile makes bin/controlplane from the module internal/proof/controlplane.
//
// The first build compiles all of Kubernetes, which takes minutes in which a person wants to see that something
// happens; later ones take seconds. This package needs the standard library only, so that it is there at once.
//
//   - The program is built when it is missing or older than its sources; tests are no sources.
//   - Of several processes that want it at the same time one builds, and the others wait.
//   - KUBERNETES=1.35 in the environment asks for another version, in a program of its own: bin/controlplane-1.35.
//   - Progress is at least a line every ten seconds: modules fetched, packages compiled out of all, linking.
//   - An error has the command and the end of its output.
package compile
