package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// value is a value of a chart, with its default.
type value struct {
	name, about string
	is          any // values, if it is a section
}

type values []value

func (vs *values) set(name, about string, is any) { *vs = append(*vs, value{name, about, is}) }

func (vs *values) has(name string) bool {
	return slices.ContainsFunc(*vs, func(v value) bool { return v.name == name })
}

// text is values.yaml.
func (vs *values) text(indent string) (string, error) {
	var all strings.Builder
	for _, v := range *vs {
		fmt.Fprintf(&all, "%s# %s\n", indent, v.about)
		if section, ok := v.is.(values); ok {
			text, err := section.text(indent + "  ")
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&all, "%s%s:\n%s", indent, v.name, text)
			continue
		}
		text, err := yaml.Marshal(map[string]any{v.name: v.is})
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(text)) {
			all.WriteString(strings.TrimRight(indent+line, " \n") + "\n")
		}
	}
	return all.String(), nil
}

// schema is values.schema.json: with it, helm refuses values that do not exist.
func (vs *values) schema() ([]byte, error) {
	top := schemaOf(*vs)
	top["$schema"] = "https://json-schema.org/draft-07/schema#"
	top["properties"].(map[string]any)["global"] = map[string]any{"type": "object"} // helm's, within another chart
	return json.MarshalIndent(top, "", "  ")
}

func schemaOf(is any) map[string]any {
	switch is := is.(type) {
	case values:
		fields := map[string]any{}
		for _, v := range is {
			fields[v.name] = schemaOf(v.is)
			fields[v.name].(map[string]any)["description"] = v.about
		}
		return map[string]any{"type": "object", "additionalProperties": false, "properties": fields}
	case map[string]string:
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	case []any:
		return map[string]any{"type": "array"}
	case string:
		return map[string]any{"type": "string"}
	case bool:
		return map[string]any{"type": "boolean"}
	case map[string]any:
		return map[string]any{"type": "object"}
	default:
		return map[string]any{"type": "integer"}
	}
}

// workload puts marks into a Deployment or DaemonSet, for the values of a section.
func (t *templater) workload(object map[string]any, section string) values {
	var vs values
	spec, pod := child(object, "spec"), child(object, "spec", "template", "spec")
	strategy, _ := spec["strategy"].(map[string]any)
	if replicas, ok := spec["replicas"]; ok && strategy["type"] != "Recreate" { // which is for those that are alone
		vs.set("replicas", "How many Pods run.", replicas)
		spec["replicas"] = t.mark(scalar, "{{ "+section+".replicas }}")
	}
	containers := slices.Concat(list(pod["containers"]), list(pod["initContainers"]))
	repository := ""
	for i, c := range containers {
		container := c.(map[string]any)
		if i == 0 {
			repository, _ = split(container["image"])
			vs = append(vs, t.container(container, section, section, "")...)
			continue
		}
		name := container["name"].(string)
		own := t.container(container, section+"."+name, section, repository)
		vs.set(name, "The container "+name+".", own)
	}
	for _, field := range []struct {
		name, about string
		none        any
	}{
		{"nodeSelector", "Labels of the nodes that Pods may run on.", map[string]any{}},
		{"affinity", "Where Pods would rather run, as in a Pod.", map[string]any{}},
		{"tolerations", "Taints that do not matter, as in a Pod.", []any{}},
		{"priorityClassName", "How important the Pods are.", ""},
	} {
		is, ok := pod[field.name]
		if !ok {
			is = field.none
		}
		vs.set(field.name, field.about, is)
		pod[field.name] = t.mark(optional, section+"."+field.name)
	}
	vs.set("podAnnotations", "Annotations of the Pods.", map[string]string{})
	child(object, "spec", "template", "metadata")["annotations"] = t.mark(optional, section+".podAnnotations")
	pod["imagePullSecrets"] = t.mark(optional, ".Values.imagePullSecrets")
	return vs
}

// container puts marks into a container. If its image is that of the workload, repository and tag are, too.
func (t *templater) container(container map[string]any, section, workload, repository string) values {
	var vs values
	image := section
	if own, tag := split(container["image"]); own == repository {
		image = workload
	} else {
		if tag == t.released {
			tag = t.tag
		}
		vs.set("image", "What to run. A tag may have a digest: v1.2.3@sha256:…", values{
			{"repository", "Registry and name.", own}, {"tag", "Version.", tag},
		})
	}
	container["image"] = t.mark(scalar, `"{{ `+image+`.image.repository }}:{{ `+image+`.image.tag }}"`)
	vs.set("args", "The command line, all of it.", container["args"])
	container["args"] = t.mark(block, section+".args")
	if section == workload {
		variables, fixed := map[string]string{}, []any{}
		for _, e := range list(container["env"]) {
			if text, ok := e.(map[string]any)["value"].(string); ok {
				variables[e.(map[string]any)["name"].(string)] = text
			} else {
				fixed = append(fixed, e)
			}
		}
		vs.set("env", "Environment variables, besides those about the Pod itself.", variables)
		m := t.mark(pairs, section+".env")
		container["env"] = m
		if len(fixed) > 0 {
			fixed = append(fixed, m)
			container["env"] = fixed
		}
	}
	vs.set("resources", "As in a Pod. A program keeps its heap within 90 % of its limit of memory.",
		container["resources"])
	container["resources"] = t.mark(block, section+".resources")
	return vs
}

// split returns repository and tag of an image.
func split(image any) (repository, tag string) {
	text, _ := image.(string)
	i := strings.LastIndex(text, ":")
	return text[:max(i, 0)], text[i+1:]
}

// child returns an object within an object, and makes those that are missing.
func child(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[name] = next
		}
		object = next
	}
	return object
}

func list(of any) []any {
	all, _ := of.([]any)
	return all
}

// texts are the values of a map, which are strings.
func texts(of map[string]any) map[string]string {
	all := map[string]string{}
	for name, text := range of {
		all[name], _ = text.(string)
	}
	return all
}
