// Command ship makes what people deploy: images of the programs and their manifests. It needs Go and nothing else, no
// Docker daemon and no network but the Go module proxy's.
//
//	ship images    ──▶ go build, for each platform ──▶ layers ──▶ dist/images/<program>, an OCI layout
//	ship push      ──▶ a registry
//	ship unpack    ──▶ the files of an image, for tests
//	ship notes     ──▶ what CHANGELOG.md says about a version
//	ship manifests ──▶ deploy/install.yaml of each program, from its kustomization
//	ship charts    ──▶ a Helm chart of each, from the same kustomization
//
// An image has what the program needs and nothing else: certificates of public authorities, a user without rights,
// /tmp, the program, and the list of the modules in it (/usr/share/sbom, CycloneDX). The same commit, built by the same
// Go release, has the same digest on every machine.
package main
