// Package resource finds the resource that a name means, like kubectl does. The
// name is a plural, a singular, a kind or a short name, optionally with a group
// or with a version and a group:
//
//	found, err := resource.Find(server, "deploy") // deployments.apps
package resource
