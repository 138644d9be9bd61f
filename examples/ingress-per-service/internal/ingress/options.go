package ingress

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// These are defaults of [Options].
const (
	DefaultHost     = "{{.Name}}.{{.Namespace}}.example.com"
	DefaultPathType = networkingv1.PathTypePrefix
)

// Options configure the Ingresses. Nil and zero fields mean the defaults.
type Options struct {
	// Host is the host name of the Ingresses. In it, {{.Namespace}} and
	// {{.Name}} stand for the namespace and the name of the Service. For
	// example, {{.Name}}.example.com becomes web.example.com for Service web.
	// Defaults to [DefaultHost].
	Host string
	// ClassName is the ingressClassName. If it is empty, the cluster chooses
	// the class.
	ClassName string
	// PathType is the type of the path /. Defaults to [DefaultPathType].
	PathType networkingv1.PathType
	// Sweep configures the search for orphans. See package names for the
	// defaults.
	Sweep names.Options
	// Shards limits the controller to this replica's share of the Services.
	// Defaults to nil: the controller works on all Services.
	Shards reconcile.Shards
}

func (o *Options) withDefaults() (Options, error) {
	var set Options
	if o != nil {
		set = *o
	}
	set.Host = cmp.Or(set.Host, DefaultHost)
	set.PathType = cmp.Or(set.PathType, DefaultPathType)
	var errs []error
	if _, err := set.hostOf("default", "web"); err != nil {
		errs = append(errs, fmt.Errorf("ingress.Options.Host %q is invalid: a Service default/web, for example, would get %w",
			set.Host, err))
	}
	switch set.PathType {
	case networkingv1.PathTypePrefix, networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific:
	default:
		errs = append(errs, fmt.Errorf("ingress.Options.PathType is %q: must be Prefix, Exact or ImplementationSpecific",
			set.PathType))
	}
	if set.ClassName != "" {
		if problems := validation.IsDNS1123Subdomain(set.ClassName); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("ingress.Options.ClassName is %q: %s", set.ClassName, strings.Join(problems, "; ")))
		}
	}
	return set, errors.Join(errs...)
}

func (o *Options) hostOf(namespace, name string) (string, error) {
	host := strings.ReplaceAll(strings.ReplaceAll(o.Host, "{{.Namespace}}", namespace), "{{.Name}}", name)
	if strings.Contains(host, "{{") {
		return "", fmt.Errorf("host %q: the only placeholders are {{.Namespace}} and {{.Name}}", host)
	}
	if problems := validation.IsDNS1123Subdomain(host); len(problems) > 0 {
		return "", fmt.Errorf("host %q: %s", host, strings.Join(problems, "; "))
	}
	return host, nil
}
