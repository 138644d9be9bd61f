// Package exercises contains the code of docs/exercises.md: fifteen
// controllers, each with a bug that its users have reported, and the fixed
// version of each. The tests find every bug with an exploration of at most 20
// lines, and find no bug in the fixed versions.
//
// # The shop
//
// Every ConfigMap with the label app is an app. A controller creates Secrets
// for the app, and changes state outside the cluster: a bank, a mail server and
// a storage with buckets.
package exercises
