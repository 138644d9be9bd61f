// Package clusterapi explores the MachineDeployment, MachineSet and topology MachineSet controllers of Cluster API
// v1.14.2, unmodified. What is found in the version beside it is mended.
package clusterapi
