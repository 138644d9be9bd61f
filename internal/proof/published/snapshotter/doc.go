// Package snapshotter explores the snapshot controller of Kubernetes CSI in two
// versions, v8.6.0 of go.mod and v8.7.0 of fixed.mod.
package snapshotter
