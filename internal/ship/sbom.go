package main

import (
	"bytes"
	"debug/buildinfo"
	"runtime/debug"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// billOfMaterials lists the modules that are linked into the binaries of an image, as CycloneDX in JSON. It has no
// serial number and no time but the commit's: the same image has the same list.
func billOfMaterials(p program, binaries ...binary) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	main := binaries[0]
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: main.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: p.name, Type: cyclonedx.ComponentTypeContainer, Name: p.name, Version: main.version(), Description: p.about,
		},
	}
	components := []cyclonedx.Component{{
		BOMRef: "go", Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: main.info.GoVersion,
		PackageURL: "pkg:golang/std@" + main.info.GoVersion[len("go"):],
	}}
	known := map[string]bool{}
	for _, b := range binaries {
		for _, m := range modules(b.info) {
			c := component(m)
			if !known[c.BOMRef] {
				known[c.BOMRef] = true
				components = append(components, c)
			}
		}
	}
	bom.Components = &components
	var text bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return text.Bytes(), err
}

// modules returns all modules of a binary, its own first, as they were built.
func modules(info *buildinfo.BuildInfo) []*debug.Module {
	all := []*debug.Module{&info.Main}
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		all = append(all, m)
	}
	return all
}

func component(m *debug.Module) cyclonedx.Component {
	url := "pkg:golang/" + m.Path
	if m.Version != "" {
		url += "@" + m.Version
	}
	c := cyclonedx.Component{
		BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url,
	}
	if m.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
