package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/yaml"
)

// templater makes templates of a chart from objects. A mark stands for a value until the object is text.
type templater struct {
	chart         string
	released, tag string // of the images, in the kustomization and in the chart
	namespace     string
	security      string // the Pod security standard of the namespace
	marks         []mark
	sections      map[string]string // of each workload by name: where its values are
	generated     map[string]string // ConfigMaps whose names end in a hash of the content: the beginnings
	values        values
	general       values   // those that are not of a workload
	kinds         []string // the names of the CRDs
}

// A mark stands for an expression.
type mark struct {
	way way
	of  string
}

// A way is how an expression becomes text.
type way int

const (
	scalar   way = iota
	block        // any YAML
	optional     // any YAML; without it there is no field, either
	pairs        // a map, as a list of names and values
)

const podSecurity = "pod-security.kubernetes.io/enforce"

var (
	keyed  = regexp.MustCompile(`(?m)^( *)(- )?([A-Za-z]+): mark-(\d+)-mark$`)
	listed = regexp.MustCompile(`(?m)^( *)- mark-(\d+)-mark$`)
	hashed = regexp.MustCompile(`^(.+)-[a-z0-9]{10}$`)
)

// templates returns the templates of all objects, by kind. Objects that are not in base are for clusters with the
// Prometheus operator.
func (t *templater) templates(all, base resmap.ResMap) (map[string][]string, error) {
	t.survey(all)
	templates := map[string][]string{}
	for _, r := range all.Resources() {
		if r.GetKind() == "Namespace" {
			continue
		}
		object, err := r.Map()
		if err != nil {
			return nil, err
		}
		condition, err := t.replace(r, object)
		if err != nil {
			return nil, err
		}
		if _, err := base.GetByCurrentId(r.CurId()); err != nil {
			condition = ".Values.monitoring"
		}
		text, err := t.text(object)
		if err != nil {
			return nil, err
		}
		if condition != "" {
			text = "{{- if " + condition + " }}\n" + text + "{{- end }}\n"
		}
		templates[r.GetKind()] = append(templates[r.GetKind()], text)
	}
	return templates, nil
}

// survey records the references of the objects.
func (t *templater) survey(all resmap.ResMap) {
	t.sections, t.generated = map[string]string{}, map[string]string{}
	var workloads []string
	for _, r := range all.Resources() {
		switch r.GetKind() {
		case "Namespace":
			t.namespace, t.security = r.GetName(), r.GetLabels()[podSecurity]
		case "Deployment", "DaemonSet":
			workloads = append(workloads, r.GetName())
		case "ConfigMap":
			if m := hashed.FindStringSubmatch(r.GetName()); m != nil {
				t.generated[r.GetName()] = m[1]
			}
		case "CustomResourceDefinition":
			t.kinds = append(t.kinds, r.GetName())
			t.general.set("crds",
				"Whether to install the kinds. They stay when the chart is uninstalled, and so do their objects.", true)
		}
	}
	for _, name := range workloads {
		t.sections[name] = ".Values"
		if len(workloads) > 1 {
			t.sections[name] += "." + strings.TrimPrefix(name, t.chart+"-")
		}
	}
	t.general.set("imagePullSecrets", "Of all Pods, such as [{name: registry}].", []any{})
	t.general.set("networkPolicy", "Whether to let nothing else reach the Pods, and them nothing else.", true)
	t.general.set("monitoring", "Whether to install a PodMonitor, which needs the Prometheus operator.", false)
}

// replace puts marks into an object. It returns the condition under which the object is installed.
func (t *templater) replace(r *resource.Resource, object map[string]any) (condition string, err error) {
	section := t.sections[r.GetName()]
	switch r.GetKind() {
	case "Deployment", "DaemonSet":
		own := t.workload(object, section)
		if name, nested := strings.CutPrefix(section, ".Values."); nested {
			own = values{{name, "The " + r.GetKind() + " " + r.GetName() + ".", own}}
		}
		t.values = append(t.values, own...)
	case "ConfigMap":
		if t.general.has("config") {
			return "", fmt.Errorf("ConfigMap %s is the second one: want one, the value config", r.GetName())
		}
		t.general.set("config", "Files that the program reads, by name.", texts(child(object, "data")))
		object["data"] = t.mark(block, ".Values.config")
	case "PersistentVolumeClaim":
		t.general.set("storageClassName", "Of the volume. Without one it is of the default class.", "")
		child(object, "spec")["storageClassName"] = t.mark(optional, ".Values.storageClassName")
	case "PodDisruptionBudget": // of a single Pod, it would keep its node from being drained
		return "gt (int " + section + ".replicas) 1", nil
	case "NetworkPolicy":
		return ".Values.networkPolicy", nil
	case "CustomResourceDefinition":
		child(object, "metadata", "annotations")["helm.sh/resource-policy"] = "keep"
		return ".Values.crds", nil
	}
	return "", nil
}

// mark returns the mark for an expression until the object is text.
func (t *templater) mark(how way, of string) string {
	t.marks = append(t.marks, mark{how, of})
	return fmt.Sprintf("mark-%d-mark", len(t.marks)-1)
}

// text is the template of an object whose values are marked.
func (t *templater) text(object map[string]any) (string, error) {
	content, err := yaml.Marshal(object)
	if err != nil {
		return "", err
	}
	text := strings.ReplaceAll(string(content), "{{", `{{ "{{" }}`)
	for name, start := range t.generated {
		text = strings.ReplaceAll(text, name, start+"-{{ toYaml .Values.config | sha256sum | trunc 10 }}")
	}
	text = regexp.MustCompile(`(?m)^( *(?:- )?namespace): `+t.namespace+`$`).
		ReplaceAllString(text, "$1: {{ .Release.Namespace }}")
	text = strings.ReplaceAll(text, ":serviceaccount:"+t.namespace+":", ":serviceaccount:{{ .Release.Namespace }}:")
	text = keyed.ReplaceAllStringFunc(text, func(line string) string {
		m := keyed.FindStringSubmatch(line)
		return t.field(m[1], m[2], m[3], m[4])
	})
	return listed.ReplaceAllStringFunc(text, func(line string) string {
		m := listed.FindStringSubmatch(line)
		return t.each(m[1], t.marked(m[2]).of)
	}), nil
}

func (t *templater) marked(number string) mark {
	i, _ := strconv.Atoi(number) // the number that mark has written
	return t.marks[i]
}

// field is the text of a field whose value is marked.
func (t *templater) field(indent, dash, key, number string) string {
	m := t.marked(number)
	lead := indent + dash + key + ":"
	as := fmt.Sprintf("| nindent %d }}", len(indent)+len(dash)+2)
	switch m.way {
	case block:
		return lead + " {{- toYaml " + m.of + " " + as
	case optional:
		return indent + "{{- with " + m.of + " }}\n" + lead + " {{- toYaml . " + as + "\n" + indent + "{{- end }}"
	case pairs:
		return indent + "{{- with " + m.of + " }}\n" + lead + "\n" + t.each(indent, ".") + "\n" + indent + "{{- end }}"
	default:
		return lead + " " + m.of
	}
}

// each has the names and the values of a map.
func (*templater) each(indent, of string) string {
	return indent + "{{- range $name, $value := " + of + " }}\n" + indent + "- name: {{ $name }}\n" +
		indent + "  value: {{ $value | quote }}\n" + indent + "{{- end }}"
}

// notes returns the text that helm prints after it has installed the chart.
func (t *templater) notes() string {
	text := "{{ .Chart.Name }} {{ .Chart.AppVersion }} is installed:\n\n" +
		"  kubectl --namespace {{ .Release.Namespace }} get pods\n\n" +
		"Its Pods are fit for namespaces with this label, which is yours to set:\n\n" +
		"  kubectl label namespace {{ .Release.Namespace }} " + podSecurity + "=" + t.security + "\n"
	if len(t.kinds) == 0 {
		return text
	}
	return text + "\nThe kinds and their objects stay when it is uninstalled. To delete them, too, do so before that, while the Pods\n" +
		"can still clean up after them; without the Pods, objects with finalizers would stay for ever:\n\n" +
		"  kubectl delete " + strings.Join(t.kinds, ",") + " --all --all-namespaces\n" +
		"  helm uninstall {{ .Release.Name }} --namespace {{ .Release.Namespace }}\n" +
		"  kubectl delete crd " + strings.Join(t.kinds, " ") + "\n"
}
