// Package exercises has the code of docs/exercises.md: twelve controllers with a bug, as their users tell of it, and
// what each looks like when it is mended. Its tests find every bug by an exploration of at most 20 lines, and nothing
// in the mended ones.
//
// # The shop
//
// Every ConfigMap with the label app is an app. A controller keeps Secrets for it, and what is outside of the cluster:
// a bank, a mail server, a storage.
package exercises
