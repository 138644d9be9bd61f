// Package resource finds the resource that somebody means, the way kubectl
// does: by plural, singular, kind or short name, optionally with group, or
// version and group.
package resource
