// Command deploy proves that the shipped programs work. On a real control
// plane, it installs each program with its install.yaml, and starts the program
// from the files of its image, with the token of its Pod. Then it exercises
// everything that the program does, and compares the program's calls to the API
// server with its roles.
//
//	install.yaml ──▶ API server ──▶ Deployment, DaemonSet ──▶ Pod ──▶ volumes, token, environment
//	dist/rootfs/<image> ──▶ chroot, user of the Pod ──▶ program ──▶ API server ──▶ audit log ──▶ roles
//
// It fails if a call was forbidden, or if a permission was never used.
package main
