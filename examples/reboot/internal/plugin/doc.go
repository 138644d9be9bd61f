// Package plugin is kubectl reboot: it requests reboots, and shows their progress.
//
//	request NODE...   sets reboot-needed, and waits for the end if told to
//	status  [NODE...] a line for each node
//	pause, resume     a node, or a whole RebootGroup
//	why     NODE      the reason why the node waits
//
// It reads and writes what an administrator may: nodes and the specs of groups.
package plugin
