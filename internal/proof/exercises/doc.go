// Package exercises contains the code of docs/exercises.md: fifteen controllers
// with a bug, as their users describe it, and the fixed version of each. Its
// tests find every bug by an exploration of at most 20 lines, and find no bug
// in the fixed versions.
//
// # The shop
//
// Every ConfigMap with the label app is an app. A controller keeps Secrets for
// it, and state outside the cluster: a bank, a mail server, a storage.
package exercises
