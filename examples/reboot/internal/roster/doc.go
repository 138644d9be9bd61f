// Package roster lists the RebootGroups of a cluster, of which some may not be
// decodable, for example because their definition is of another release:
//
//	all, err := roster.Read(ctx, groups, nil)
//	name, rivals := all.Membership().Group(node)
//
// Its promise: one group that cannot be decoded does not hide the others. Its
// selector and its slots are read on their own, so that its nodes stay its own.
// If one of these cannot be read, either, its name is in Unclear, and
// [rules.Membership.Doubt] names it.
package roster
