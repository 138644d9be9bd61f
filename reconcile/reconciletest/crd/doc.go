// Package crd makes the simulated server of package reconciletest treat custom
// resources according to their CustomResourceDefinitions. It uses the code of
// the real server for this: unknown fields are pruned, defaults are set, values
// are validated by types, patterns and rules in CEL, with ratcheting, and
// server-side apply merges lists as the schema says.
//
//	definitions, err := crd.Read(os.DirFS("config/crd/bases"))
//	reconciletest.Explore(t, &reconciletest.Case{Definitions: definitions, …}, nil)
//
// It is a separate module because its library (k8s.io/apiextensions-apiserver)
// adds 45 modules to the module graph, and compiles 134 packages of 21 of them,
// such as CEL. A test binary grows by 9 MB. Tests without definitions do not
// need the module.
//
// Add it to the go.mod of the tests: go get
// github.com/homeostat/homeostat/reconcile/reconciletest/crd.
//
// # Effects on a test
//
// A value that the schema refuses gets the 422 of the real server, with its
// message: a controller that writes such a status never comes to rest, and the
// finding contains the message. An unknown field is pruned without an error, so
// a controller that expects to read it back writes forever. The answer to a
// write contains the defaults that the server has set, so a controller that
// compares the whole spec removes them again.
//
// # What it does not do
//
// Only the storage version is served. There is no conversion, no scale
// subresource and no selectable field. The server does not watch
// CustomResourceDefinitions, so definitions that a program installs itself have
// no effect.
package crd
