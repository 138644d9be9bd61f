package api

import _ "embed"

//go:embed crd.yaml
var definition []byte

// CRD returns the CustomResourceDefinition of RebootGroup as YAML.
func CRD() []byte { return append([]byte(nil), definition...) }
