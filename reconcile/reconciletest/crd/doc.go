// Package crd makes the simulated server of package reconciletest treat custom
// resources according to their CustomResourceDefinitions: unknown fields are
// pruned, defaults are set, values are validated, by types, patterns and rules
// in CEL, with ratcheting, and server-side apply merges lists as the schema
// says, all by the code of the real server.
//
//	definitions, err := crd.Read(os.DirFS("config/crd/bases"))
//	reconciletest.Explore(t, &reconciletest.Case{Definitions: definitions, …}, nil)
//
// It is a separate module. The library (k8s.io/apiextensions-apiserver) adds 86
// modules, CEL and gRPC among them, with 475 packages: half a minute of CPU
// time to compile, and 18 MB of a test binary. Cases without definitions do not
// pay for it.
//
// Add it to the go.mod of the tests: go get
// github.com/homeostat/homeostat/reconcile/reconciletest/crd.
//
// # Effects on a test
//
// A value that the schema refuses gets the 422 of the real server, with its
// message: a controller that writes such a status never comes to rest, and the
// finding contains the message. An unknown field is pruned without an error, so
// a controller that expects to read it back writes forever. Defaults that the
// server sets are in the answer to the write: a controller that compares the
// whole spec removes them again.
//
// # What it does not do
//
// Only the storage version is served. There is no conversion, no scale
// subresource and no selectable field. The server does not watch
// CustomResourceDefinitions: those that a program installs itself have no
// effect.
package crd
