package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/mod/modfile"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// The regular English plural is what users type, and what other programs expect.
func TestThePluralIsEnglish(t *testing.T) {
	for kind, plural := range map[string]string{
		"Widget": "widgets", "Gateway": "gateways", "Key": "keys", "Policy": "policies", "Proxy": "proxies",
		"Switch": "switches", "Mesh": "meshes", "Box": "boxes", "Redis": "redises", "Ingress": "ingresses",
		"Topaz": "topazes", "DNSZone": "dnszones", "Y": "ys", "Endpoints": "endpoints",
	} {
		NewWithT(t).Expect(named(kind).Plural).To(Equal(plural))
	}
}

// The longest names have a file of 255 bytes for their CustomResourceDefinition.
func TestNamesThatFitInNoFileAreRefused(t *testing.T) {
	g := NewWithT(t)
	n := parameters{Group: strings.Repeat("a.", 119) + "com", Kind: "Widget", Version: "v1"}.withDefaults()
	g.Expect(len(n.Group) + len(n.Plural)).To(Equal(248))
	n.Plural += "s"
	g.Expect(n.validate()).To(Succeed())
	files, err := render(n, source{Homeostat: "v1.2.3"})
	g.Expect(err).NotTo(HaveOccurred())
	for name := range files {
		g.Expect(len(path.Base(name))).To(BeNumerically("<=", 255))
	}
	n.Plural += "s"
	g.Expect(n.validate()).To(MatchError(ContainSubstring("--plural and --group are too long: together they have 250 characters")))
}

// Go would look for the packages of such a module in the new module itself.
func TestAModuleThatHidesOneThatItRequiresIsRefused(t *testing.T) {
	g := NewWithT(t)
	for name, ok := range map[string]bool{
		"k8s.io/api": false, "k8s.io/client-go/v2": false, "k8s.io": false, "sigs.k8s.io/controller-tools": false,
		homeostat: false, homeostat + "/operator": false, "github.com/homeostat": false,
		"k8s.io/apis": true, "github.com/homeostat/operator": true, "example.com/k8s.io/api": true,
	} {
		n := named("Widget")
		n.Module = name
		if ok {
			g.Expect(n.validate()).To(Succeed(), name)
		} else {
			g.Expect(n.validate()).To(MatchError(MatchRegexp(`^--module is ".*": the new module requires `)), name)
		}
	}
	n := named("Widget")
	n.Secret = true
	files, err := render(n, source{Homeostat: "v1.2.3"})
	g.Expect(err).NotTo(HaveOccurred())
	for name, text := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		g.Expect(err).NotTo(HaveOccurred())
		for _, i := range file.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			g.Expect(err).NotTo(HaveOccurred())
			isOther := strings.Contains(strings.Split(imported, "/")[0], ".") && !isWithin(imported, n.Module)
			g.Expect(!isOther || slices.ContainsFunc(requiredModules, func(m string) bool { return isWithin(imported, m) })).
				To(BeTrue(), imported)
		}
	}
}

// Whatever is not refused gives files that Go and Kubernetes read as they are
// meant.
func FuzzNames(f *testing.F) {
	f.Add("example.com", "Widget", "v1alpha1", "", "")
	f.Add("1.2", "Yes", "v1", "", "example.com/x/v2")
	f.Add("1e3.5", "Null", "v2beta3", "on", "x.y/a b")
	f.Add("a-b.io", "Type", "v1", "true", "example.com/type")
	f.Add("example.com", "Struct", "v1", "y", "example.com/\"")
	f.Fuzz(func(t *testing.T, group, kind, version, plural, module string) {
		n := parameters{Group: group, Kind: kind, Version: version, Plural: plural, Module: module}.withDefaults()
		if n.validate() != nil {
			return
		}
		g := NewWithT(t)
		files, err := render(n, source{Homeostat: "v1.2.3", Replace: "/a folder/with \"quotes"})
		g.Expect(err).NotTo(HaveOccurred()) // go/format has read the Go files
		mod, err := modfile.Parse("go.mod", files["go.mod"], nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(mod.Module.Mod.Path).To(Equal(n.Module))
		g.Expect(mod.Replace[0].New.Path).To(Equal("/a folder/with \"quotes"))
		for name, text := range files {
			g.Expect(bytes.Contains(text, []byte("<no value>"))).To(BeFalse(), name)
			if path.Ext(name) == ".yaml" {
				for document := range strings.SplitSeq(string(text), "---\n") {
					g.Expect(yaml.UnmarshalStrict([]byte(document), &map[string]any{})).To(Succeed(), name)
				}
			}
		}
		var crd unstructured.Unstructured
		g.Expect(yaml.UnmarshalStrict(files["config/crd/"+n.Group+"_"+n.Plural+".yaml"], &crd.Object)).To(Succeed())
		g.Expect(validation.IsDNS1123Subdomain(crd.GetName())).To(BeEmpty())
		g.Expect(crd.Object["spec"]).To(And(HaveKeyWithValue("group", n.Group), HaveKeyWithValue("names", map[string]any{
			"kind": n.Kind, "listKind": n.Kind + "List", "plural": n.Plural, "singular": n.Singular,
		})))
		var role rbacv1.ClusterRole
		g.Expect(yaml.UnmarshalStrict(files["config/role.yaml"], &role)).To(Succeed())
		g.Expect(role.Rules[0].APIGroups).To(Equal([]string{n.Group}))
		g.Expect(role.Rules[0].Resources).To(Equal([]string{n.Plural}))
		var namespace corev1.Namespace
		g.Expect(yaml.UnmarshalStrict(files["config/namespace.yaml"], &namespace)).To(Succeed())
		g.Expect(validation.IsDNS1123Label(namespace.Name)).To(BeEmpty())
	})
}
