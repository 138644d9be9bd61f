// Package plugin implements kubectl reboot, which requests reboots and shows
// their progress:
//
//	request NODE...   sets reboot-needed; with --wait it waits for the reboot
//	status  [NODE...] shows a line for each node
//	pause, resume     pause or resume a node, or a whole RebootGroup
//	why     NODE      explains why the node waits
//
// It reads and writes only what an administrator may: nodes and the specs of
// groups.
package plugin
