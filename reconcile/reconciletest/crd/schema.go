package crd

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	gvk "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/homeostat/homeostat/internal/apisim"
)

// schema is a structural schema in the form that the simulated server needs.
// Each part is compiled once, when the definition is read. It does not retain
// the objects that it checks, so all runs of a case share it.
type schema struct {
	source     *apiextensionsv1.JSONSchemaProps
	structural *structural.Structural
	values     validation.SchemaValidator
	rules      *cel.Validator // nil if the schema has no rules
	types      managedfields.TypeConverter
}

var _ apisim.Schema = (*schema)(nil)

// newSchema compiles a schema as the real server does when a definition is
// applied. It returns an error if the schema is not structural or cannot be
// compiled. Unlike the real server, it accepts rules with mistakes
// (x-kubernetes-validations). Validate then reports them for each object.
func newSchema(source *apiextensionsv1.JSONSchemaProps, kind gvk.GroupVersionKind) (*schema, error) {
	var props apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(source, &props, nil)
	if err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	s, err := structural.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	if errs := structural.ValidateStructural(field.NewPath("openAPIV3Schema"), s); len(errs) > 0 {
		return nil, fmt.Errorf("checking that the schema is structural: %w", errs.ToAggregate())
	}
	values, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", err)
	}
	types, err := typesOf(s, kind)
	if err != nil {
		return nil, err
	}
	return &schema{
		source: source, structural: s, values: values, rules: cel.NewValidator(s, true, celconfig.PerCallLimit), types: types,
	}, nil
}

// Decode removes unknown fields and forbidden nulls from an object and sets
// defaults, in place and in the same order as the real server. It returns the
// paths of the unknown fields.
func (s *schema) Decode(obj map[string]any) []string {
	unknown := pruning.PruneWithOptions(obj, s.structural, true,
		structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, s.structural)
	defaulting.Default(obj, s.structural)
	return unknown
}

// Validate returns errors for the invalid values of obj and for the rules that
// it breaks. old is the object before an update, or nil for a new object. As on
// the real server, a value that an update does not change may be invalid.
func (s *schema) Validate(obj, old map[string]any, _ string) field.ErrorList {
	ctx := context.Background()
	var errs field.ErrorList
	var ratcheting []cel.Option
	if old == nil {
		errs = validation.ValidateCustomResource(nil, obj, s.values)
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, obj)...)
	} else {
		correlated := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: s.structural})
		ratcheting = append(ratcheting, cel.WithRatcheting(correlated))
		errs = validation.ValidateCustomResourceUpdate(nil, obj, old, s.values, validation.WithRatcheting(correlated))
		if len(listtype.ValidateListSetsAndMaps(nil, s.structural, old)) == 0 {
			errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, obj)...)
		}
	}
	errs = append(errs, objectmeta.Validate(ctx, nil, obj, s.structural, false)...)
	switch {
	case s.rules == nil:
		return errs
	case blocked(errs):
		return append(errs, field.Invalid(nil, nil, "some rules were not checked because the object is invalid"))
	}
	var previous any
	if old != nil {
		previous = old
	}
	broken, _ := s.rules.Validate(ctx, nil, s.structural, obj, previous, celconfig.RuntimeCELCostBudget, ratcheting...)
	return append(errs, broken...)
}

// blocked reports whether errs contains an error because of which the rules of
// the schema cannot be evaluated.
func blocked(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

// Types returns the converter that tells server-side apply how to merge lists.
func (s *schema) Types() managedfields.TypeConverter { return s.types }

// OpenAPI returns the schema as it is written in the definition.
func (s *schema) OpenAPI() map[string]any {
	var document map[string]any
	if raw, err := json.Marshal(s.source); err != nil || json.Unmarshal(raw, &document) != nil {
		return nil
	}
	return document
}
