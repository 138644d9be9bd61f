// Package jobs explores the controllers of Jobs and CronJobs in two versions of
// Kubernetes, v1.36.3 of v1.36.3.mod and v1.37.2 of go.mod.
package jobs
