// Command ship makes everything that is deployed: images of the programs and their manifests. It needs only Go: no
// Docker daemon, and no network except the Go module proxy.
//
//	ship images    ──▶ go build, for each platform ──▶ layers ──▶ dist/images/<program>, an OCI layout
//	ship push      ──▶ a registry
//	ship unpack    ──▶ the files of an image, for tests
//	ship notes     ──▶ the section of CHANGELOG.md about a version
//	ship manifests ──▶ deploy/install.yaml of each program, from its kustomization
//	ship charts    ──▶ a Helm chart of each, from the same kustomization
//
// An image contains only what the program needs: certificates of public authorities, a user without privileges,
// /tmp, the program, and the list of its modules (/usr/share/sbom, CycloneDX). The same commit, built by the same
// Go release, has the same digest on every machine.
package main
