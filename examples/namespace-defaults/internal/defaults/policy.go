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

// Policy is the configuration that every namespace without an exemption gets.
type Policy struct {
	// Owner is the owner of namespaces that do not have one.
	Owner string `json:"owner"`
	// Exempt lists the names of exempt namespaces. Namespaces with the label
	// [ExemptKey] are exempt, too.
	Exempt []string `json:"exempt,omitempty"`
	// Quota limits a namespace as a whole.
	Quota corev1.ResourceList `json:"quota"`
	// Limits limit the resources of containers and Pods, and set defaults for
	// containers that do not specify resources.
	Limits []corev1.LimitRangeItem `json:"limits"`
}

// ReadPolicy reads a policy from a YAML or JSON file. An unknown field is an
// error, because a misspelled field would set no limit at all.
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
