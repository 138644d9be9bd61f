// Package zoo contains small controllers with one bug each, and a correct twin
// of each. A simulation of faults must find every bug, and must find nothing in
// the twins. It is also a catalogue to read, with a file for each class of bug.
//
// # The world
//
// An App is a ConfigMap with the label app. The controller creates a Secret for
// the App, the App's key, and then sets the annotation ready of the App:
//
//	ConfigMap d/a ──▶ Secret d/a-key ──▶ annotation ready=yes
//	(label app)       (label of=a)
//
// # How a controller is written
//
// Most bugs are in a reconcile, a function that looks at one App and writes.
// Two harnesses call the same reconciles: one on client-go (informers, work
// queue, one worker), one on Homeostat. A [Desk] provides the reads and writes
// of a reconcile, and each harness implements them in its usual way. So if a
// harness prevents a bug, the simulation finds nothing in the program with the
// bug there. The other bugs are in the callers of reconciles, and are separate
// programs.
//
// The test of this package checks that every bug is found, and that no twin is
// reported.
package zoo
