package defaults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// OwnerKey is the annotation that names the owner of a namespace.
	OwnerKey = "defaults.homeostat.dev/owner"
	// ExemptKey is the label that, with the value true, exempts a namespace.
	ExemptKey = "defaults.homeostat.dev/exempt"
)

// Policy is the configuration of every eligible namespace.
type Policy struct {
	// Owner of namespaces that have none.
	Owner string `json:"owner"`
	// Exempt namespaces by name; the label exempts others.
	Exempt []string `json:"exempt,omitempty"`
	// Quota limits a namespace as a whole.
	Quota corev1.ResourceList `json:"quota"`
	// Limits bound the resources of containers and Pods, and set the defaults of those
	// that specify none.
	Limits []corev1.LimitRangeItem `json:"limits"`
}

// ReadPolicy reads a policy from a file of YAML or JSON. An unknown field is an
// error: it is a typing error that would set no limit anywhere.
func ReadPolicy(path string) (*Policy, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	raw, err := yaml.ToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("reading the policy %q: %w", path, err)
	}
	p := &Policy{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(p); err != nil {
		return nil, fmt.Errorf("reading the policy %q: %w", path, err)
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("reading the policy %q: %w", path, err)
	}
	return p, nil
}

func (p *Policy) validate() error {
	var errs []error
	if p.Owner == "" {
		errs = append(errs, errors.New("owner is empty: it must name the contact for namespaces without an owner"))
	}
	if len(p.Quota) == 0 {
		errs = append(errs, errors.New("quota is empty: it must limit something, such as pods"))
	}
	if len(p.Limits) == 0 {
		errs = append(errs, errors.New("limits is empty: it must have an item, such as type Container"))
	}
	for i, item := range p.Limits {
		if item.Type == "" {
			errs = append(errs, fmt.Errorf("limits[%d].type is empty: must be Container, Pod or PersistentVolumeClaim", i))
		}
	}
	return errors.Join(errs...)
}

func (p *Policy) exempts(n *corev1.Namespace) bool {
	return n.Labels[ExemptKey] == "true" || slices.Contains(p.Exempt, n.Name)
}
