// Package resource finds the resource that a name means, the way kubectl
// does: by plural, singular, kind or short name, optionally with group, or
// version and group.
package resource
