// Package zoo holds small controllers with one bug each, and a correct twin of
// each: a simulation of faults has to find the bugs and must not accuse the
// twins. It is a catalogue to read, one file for each class of bug.
//
// # The world
//
// An App is a ConfigMap with the label app. The controller gives it a Secret,
// its key, and then the annotation ready:
//
//	ConfigMap d/a ──▶ Secret d/a-key ──▶ annotation ready=yes
//	(label app)       (label of=a)
//
// # How a controller is written
//
// Most bugs are in a reconcile, a function that looks at one App and writes.
// Two harnesses call the same reconciles: one on client-go (informers, work
// queue, one worker), one on Homeostat. A [Desk] has a reconcile's tools; each
// harness gives it the usual writes. So a bug that a harness prevents shows as
// one that survives there. The other bugs are in the callers of reconciles, and
// are separate programs.
//
// The test of this package finds every bug, and accuses no twin.
package zoo
