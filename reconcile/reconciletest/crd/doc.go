// Package crd makes the simulated server of package reconciletest treat custom resources as their
// CustomResourceDefinitions say: fields that the schema does not know are pruned, defaults are set, values are
// validated, by types, patterns and rules in CEL, with ratcheting, and server-side apply merges lists as the schema
// says, by the code of the real server.
//
//	definitions, err := crd.Read(os.DirFS("config/crd/bases"))
//	reconciletest.Explore(t, &reconciletest.Case{Definitions: definitions, …}, nil)
//
// It is a module of its own. The library (k8s.io/apiextensions-apiserver) brings 86 further modules, CEL and gRPC among
// them, of 475 packages: half a minute of processor time to compile, and 18 MB of a test binary. Cases without
// definitions do not pay for it.
//
// Add it to the go.mod of the tests: go get github.com/homeostat/homeostat/reconcile/reconciletest/crd.
//
// # What a test sees of it
//
// A value that the schema refuses gets the 422 of the real server, with its words: a
// controller that writes such a status never comes to rest, and the finding has the
// message. A field that the schema does not know is pruned without an error, so that a
// controller that expects to read it back writes forever. A default that the server sets
// is in the answer of the write: a controller that compares the whole spec undoes it.
//
// # What it does not do
//
// Only the version that is stored is served. There is no conversion, no scale subresource and no selectable field. The
// server does not watch CustomResourceDefinitions: what a program installs itself has no effect.
package crd
