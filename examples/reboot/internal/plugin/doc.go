// Package plugin is kubectl reboot: it asks for reboots, and tells how far they are.
//
//	request NODE...   sets reboot-needed, and waits for the end if told to
//	status  [NODE...] a line for each node
//	pause, resume     a node, or a whole RebootGroup
//	why     NODE      what the node waits for
//
// It reads and writes what an administrator may: nodes and the specs of groups.
package plugin
