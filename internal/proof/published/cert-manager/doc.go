// Package certmanager explores controllers of cert-manager in two versions,
// v1.21.0 of go.mod and v1.21.2 of fixed.mod. Both run the same cases.
package certmanager
