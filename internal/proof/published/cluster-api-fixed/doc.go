// Package clusterapi explores the MachineDeployment, MachineSet and topology
// MachineSet controllers of Cluster API v1.14.2, unmodified. The bugs that were
// found in the version of package cluster-api are fixed in it.
package clusterapi
