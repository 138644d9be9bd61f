package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/util/validation"
)

// parameters contains the names of the new kind and of its module.
type parameters struct {
	Group    string // such as example.com
	Version  string // such as v1alpha1
	Kind     string // such as Widget
	Singular string // such as widget
	Plural   string // such as widgets
	Program  string // such as widget-operator
	Module   string // such as example.com/widget-operator

	ClusterScoped bool // whether objects of the kind belong to no namespace
	Secret        bool // whether each object names a Secret
}

var (
	isKind    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	isVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
)

// protocolKinds are the kinds that exist in every group and version. A custom
// resource cannot have their names. For example, a server answers 404 if a
// client creates an object of kind List.
var protocolKinds = []string{
	"CreateOptions", "DeleteOptions", "GetOptions", "List", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent",
}

// requiredModules are the modules whose packages the new module imports or runs.
var requiredModules = []string{
	homeostat, "gopkg.in/evanphx/json-patch.v4", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go",
	"sigs.k8s.io/controller-tools",
}

// maxNames is how many characters the plural and the group may have together.
// The file of the CustomResourceDefinition is GROUP_PLURAL.yaml, and names of
// files have at most 255 bytes. The name of the definition itself, PLURAL.GROUP,
// may have 253.
const maxNames = 255 - len("_.yaml")

// isWithin reports whether the path of a package or a module is module, or a
// path in it.
func isWithin(path, module string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// withDefaults returns p with the names that follow from the kind and the
// group. For example, it derives the plural widgets and the program
// widget-operator from the kind Widget. A plural and a module that are set stay
// as they are.
func (p parameters) withDefaults() parameters {
	p.Singular = strings.ToLower(p.Kind)
	p.Program = p.Singular + "-operator"
	if p.Plural == "" && p.Kind != "" {
		p.Plural = pluralOf(p.Singular)
	}
	if p.Module == "" {
		p.Module = p.Group + "/" + p.Program
	}
	return p
}

// hisses and consonantAndY match words whose plural ends with es or ies.
var (
	hisses        = regexp.MustCompile(`(s|x|z|ch|sh)$`)
	consonantAndY = regexp.MustCompile(`[^aeiou]y$`)
)

// pluralOf returns the regular English plural of a word in lower case:
// gateways, switches, policies. The guess of apimachinery would be gatewaies
// and switchs. The word endpoints is plural already.
func pluralOf(word string) string {
	switch {
	case word == "endpoints":
		return word
	case hisses.MatchString(word):
		return word + "es"
	case consonantAndY.MatchString(word):
		return strings.TrimSuffix(word, "y") + "ies"
	}
	return word + "s"
}

// validate returns all mistakes in the names, joined. It checks a derived name
// only if the names from which it was derived are valid.
func (p parameters) validate() error {
	errs := []error{p.validateGroup(), p.validateKind()}
	if !isVersion.MatchString(p.Version) {
		errs = append(errs,
			fmt.Errorf("--version is %q: must be a Kubernetes API version, such as v1alpha1 or v1", p.Version))
	}
	if errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}
	if problems := validation.IsDNS1035Label(p.Plural); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--plural is %q: %s", p.Plural, strings.Join(problems, "; ")))
	}
	if length := len(p.Plural) + len(p.Group); length > maxNames {
		errs = append(errs, fmt.Errorf("--plural and --group are too long: together they have %d characters, must have at "+
			"most %d, because a file of the new module has both in its name", length, maxNames))
	}
	return errors.Join(append(errs, p.validateModule())...)
}

// validateModule returns an error if the path of the module is malformed, or if
// Go would look for packages of a module that it requires in the module itself.
func (p parameters) validateModule() error {
	if err := module.CheckPath(p.Module); err != nil {
		return fmt.Errorf("--module: %w", err)
	}
	for _, required := range requiredModules {
		if isWithin(required, p.Module) || isWithin(p.Module, required) {
			return fmt.Errorf("--module is %q: the new module requires %s, and Go could not tell them apart: "+
				"use a path that you own, such as %s/%s", p.Module, required, p.Group, p.Program)
		}
	}
	return nil
}

func (p parameters) validateGroup() error {
	problems := validation.IsDNS1123Subdomain(p.Group)
	switch {
	case p.Group == "":
		return errors.New("--group is missing: must be a domain that you own, such as example.com")
	case len(problems) > 0:
		return fmt.Errorf("--group is %q: %s", p.Group, strings.Join(problems, "; "))
	case !strings.Contains(p.Group, "."):
		return fmt.Errorf("--group is %q: must be a domain with a dot, such as %s.example.com", p.Group, p.Group)
	case slices.ContainsFunc([]string{"k8s.io", "kubernetes.io"}, func(domain string) bool {
		return p.Group == domain || strings.HasSuffix(p.Group, "."+domain)
	}):
		return fmt.Errorf("--group is %q: servers refuse groups of the Kubernetes project (k8s.io, kubernetes.io) "+
			"that it has not approved", p.Group)
	}
	return nil
}

func (p parameters) validateKind() error {
	switch {
	case p.Kind == "":
		return errors.New("--kind is missing: must be a singular noun in CamelCase, such as Widget")
	case !isKind.MatchString(p.Kind):
		return fmt.Errorf("--kind is %q: must be a singular noun in CamelCase, such as Widget", p.Kind)
	// The Go package of the kind declares both of these names.
	case p.Kind == "GroupVersion" || p.Kind == "AddToScheme":
		return fmt.Errorf("--kind is %q: the kind's Go package already uses that name", p.Kind)
	case slices.Contains(protocolKinds, p.Kind):
		return fmt.Errorf("--kind is %q: Kubernetes itself has a kind of that name in every group", p.Kind)
	case len(p.Program) > validation.DNS1123LabelMaxLength:
		return fmt.Errorf("--kind is %q: must have at most %d characters", p.Kind,
			validation.DNS1123LabelMaxLength-len("-operator"))
	}
	return nil
}
