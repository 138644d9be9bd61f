// Package clusterapi explores the MachineDeployment, MachineSet and topology
// MachineSet controllers of Cluster API v1.14.2, unmodified. The bugs found in
// the version beside it are fixed.
package clusterapi
