// Package clusterapi explores the MachineDeployment, MachineSet and topology
// MachineSet controllers of Cluster API v1.13.6, unmodified. The version with
// the fixes is beside it.
package clusterapi
