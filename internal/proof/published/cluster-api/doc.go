// Package clusterapi explores the MachineDeployment, MachineSet and topology
// MachineSet controllers of Cluster API v1.13.6, unmodified. Package
// cluster-api-fixed explores the version in which the bugs are fixed.
package clusterapi
