// Command deploy proves that the shipped programs work: on a real control
// plane, it installs each program by its install.yaml, starts it from the files
// of its image, with the token of its Pod, exercises everything that it does,
// and compares its calls to the API server with its roles.
//
//	install.yaml ──▶ API server ──▶ Deployment, DaemonSet ──▶ Pod ──▶ volumes, token, environment
//	dist/rootfs/<image> ──▶ chroot, user of the Pod ──▶ program ──▶ API server ──▶ audit log ──▶ roles
//
// It fails if a call was forbidden, or if a permission has never been used.
package main
