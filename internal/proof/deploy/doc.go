// Command deploy proves that what is shipped works: on a real control plane, it installs each program by its
// install.yaml, starts it from the files of its image, with the token of its Pod, lets it do everything that it is for,
// and compares what it asked the API server for with what its roles allow.
//
//	install.yaml ──▶ API server ──▶ Deployment, DaemonSet ──▶ Pod ──▶ volumes, token, environment
//	dist/rootfs/<image> ──▶ chroot, user of the Pod ──▶ program ──▶ API server ──▶ audit log ──▶ roles
//
// It fails if a call was forbidden, or if a permission has never been used.
package main
