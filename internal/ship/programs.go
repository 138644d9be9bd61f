package main

import (
	"fmt"
	"slices"
	"strings"
)

// A program has an image.
type program struct {
	name   string
	source string // package, in the module at the root
	about  string
	root   bool              // its user is root
	tools  map[string]string // files beside it, each the package that it is built from
}

// programs lists the programs of this repository that run in a cluster. kubectl-reboot is not among them: it runs
// beside kubectl.
var programs = []program{
	{name: "configmap-from-crs", source: "./examples/configmap-from-crs", about: "One ConfigMap from many Settings"},
	{name: "dns-zone", source: "./examples/dns-zone", about: "A DNS zone with the addresses of Services"},
	{name: "ingress-per-service", source: "./examples/ingress-per-service", about: "An Ingress for every Service"},
	{name: "namespace-defaults", source: "./examples/namespace-defaults", about: "Quotas and limits for every namespace"},
	{
		name: "observe", source: "./examples/observe", about: "Runs a script for every object, and when it changes",
		// Scripts need a shell (#!/bin/sh), and call kubectl.
		tools: map[string]string{
			"bin/sh":      "github.com/homeostat/homeostat/internal/ship/sh",
			"bin/kubectl": "github.com/homeostat/homeostat/internal/ship/kubectl",
		},
	},
	{name: "pod-runtime", source: "./examples/pod-runtime", about: "How long Pods have run, for each namespace"},
	{name: "podlog", source: "./examples/podlog", about: "Logs the changes of Pods"},
	{name: "reboot-agent", source: "./examples/reboot/agent", about: "Reboots its node when it may", root: true},
	{name: "reboot-controller", source: "./examples/reboot/controller", about: "Lets nodes reboot, a few at a time"},
	{name: "website", source: "./examples/website", about: "Web servers from Websites"},
}

// registry returns where the manifests look for the image. Manifests in other modules name no registry, which means
// this one.
func (p program) registry() string {
	if p.about == "" {
		return "docker.io/library/"
	}
	return "ghcr.io/homeostat/"
}

// choose returns the programs of these names, or all of them.
func choose(names []string) ([]program, error) {
	if len(names) == 0 {
		return programs, nil
	}
	var chosen []program
	for _, name := range names {
		i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
		if i < 0 {
			var all []string
			for _, p := range programs {
				all = append(all, p.name)
			}
			return nil, fmt.Errorf("no program %q: there are %s", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, programs[i])
	}
	return chosen, nil
}
