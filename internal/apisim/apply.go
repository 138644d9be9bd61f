package apisim

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// apply executes a server-side apply. The owner of fields that were set before
// the first apply to an object is "before-first-apply", unless
// Options.ManagedFields is set to track every write.
func (x *exchange) apply() (*output, error) {
	config, err := applyConfig(x.t, x.r)
	if err != nil {
		return nil, err
	}
	current := x.t.objects[x.r.key()]
	m := metaOf(config)
	switch uid, rv := text(m, "uid"), text(m, "resourceVersion"); {
	case current == nil && x.r.Subresource != "":
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	case current == nil && uid != "":
		return nil, apierrors.NewConflict(x.t.res.groupResource(), x.r.Name, fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	case current == nil && rv != "":
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	case current != nil && rv != "" && rv != formatVersion(current.version):
		return nil, apierrors.NewConflict(x.t.res.groupResource(), x.r.Name, fmt.Errorf("%s", staleVersion))
	}
	obj, err := x.applied(current, config)
	if err != nil {
		return nil, err
	}
	if err := x.admitPatched(obj); err != nil {
		return nil, err
	}
	if current == nil {
		fresh, err := x.admit(obj)
		if err != nil {
			return nil, err
		}
		return x.r.show(http.StatusCreated, fresh)
	}
	fresh, err := x.replace(current, obj)
	if err != nil {
		return nil, err
	}
	return x.r.show(http.StatusOK, fresh)
}

// applyConfig reads the applied configuration, without the fields that this
// endpoint does not write.
func applyConfig(t *table, r *request) (object, error) {
	if r.query.Get("fieldManager") == "" {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("PatchOptions").GroupKind(), "",
			field.ErrorList{
				field.Required(field.NewPath("fieldManager"), "is required for apply patch"),
			})
	}
	body, err := yaml.ToJSON(r.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	decoded := *r
	decoded.body = body
	config, err := decodeBody(t, &decoded)
	if err != nil {
		return nil, err
	}
	m := metaOf(config)
	if m["managedFields"] != nil {
		return nil, apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	switch {
	case r.Subresource == "status":
		config = object{
			"apiVersion": config["apiVersion"], "kind": config["kind"], "status": config["status"],
			"metadata": m,
		}
		for _, f := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
			delete(m, f)
		}
	case t.res.Status:
		delete(config, "status")
	}
	m["name"] = r.Name
	if r.Namespace != "" {
		m["namespace"] = r.Namespace
	}
	return config, nil
}

// applied returns the object after config was merged into it, with the new
// owners of its fields. current is nil if the object does not exist.
func (x *exchange) applied(current *stored, config object) (object, error) {
	fields, err := fieldManager(x.t, x.r.Subresource)
	if err != nil {
		return nil, err
	}
	live := &unstructured.Unstructured{Object: object{"apiVersion": x.t.res.apiVersion(), "kind": x.t.res.Kind}}
	if current != nil {
		live.Object = clone(current.obj)
	}
	result, err := fields.Apply(live, &unstructured.Unstructured{Object: config}, x.r.query.Get("fieldManager"),
		isTrue(x.r.query.Get("force")))
	if err != nil {
		if _, known := err.(apierrors.APIStatus); known {
			return nil, err
		}
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{ // the schema does not have a field
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
		}}
	}
	obj := result.(*unstructured.Unstructured).Object
	carryOrDrop(metaOf(obj), live.Object, "resourceVersion")
	return obj, nil
}

func carryOrDrop(m, live object, fields ...string) { carry(m, metaOf(live), fields...) }

// trackFields records the caller as the owner of the fields that it changed, on
// objects whose owners are recorded.
func (x *exchange) trackFields(current *stored, obj object) (object, error) {
	if strings.HasPrefix(x.r.mediaType, "application/apply-patch") {
		return obj, nil
	}
	live := &unstructured.Unstructured{Object: object{"apiVersion": x.t.res.apiVersion(), "kind": x.t.res.Kind}}
	if current != nil {
		if live.Object = current.obj; current.meta()["managedFields"] == nil && !x.s.opts.ManagedFields {
			return obj, nil
		}
	} else if !x.s.opts.ManagedFields {
		return obj, nil
	}
	fields, err := fieldManager(x.t, x.r.Subresource)
	if err != nil {
		return nil, err
	}
	result := fields.UpdateNoErrors(live.DeepCopy(), &unstructured.Unstructured{Object: clone(obj)}, x.r.manager())
	return result.(*unstructured.Unstructured).Object, nil
}

// manager returns the name under which a caller owns fields.
func (r *request) manager() string {
	if m := r.query.Get("fieldManager"); m != "" {
		return m
	}
	return r.Client
}

func fieldManager(t *table, subresource string) (*managedfields.FieldManager, error) {
	types := managedfields.NewDeducedTypeConverter()
	switch {
	case t.res.builtin.typed:
		types = applyconfigurations.NewTypeConverter(scheme.Scheme)
	case t.res.Schema != nil:
		types = t.res.Schema.Types()
	}
	m, err := managedfields.NewDefaultCRDFieldManager(types, oneVersion{}, oneVersion{}, oneVersion{},
		t.res.gvk(), t.res.gvk().GroupVersion(),
		subresource, nil)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("making the field manager of %s: %w", t.res.Kind, err))
	}
	return m, nil
}

// oneVersion is a converter that converts no object: every resource has one
// version, and objects are unstructured.
type oneVersion struct{}

func (oneVersion) Convert(src, dst, _ any) error {
	source, ok := src.(*unstructured.Unstructured)
	target, ok2 := dst.(*unstructured.Unstructured)
	if !ok || !ok2 {
		return fmt.Errorf("converting %T to %T: only unstructured objects are known", src, dst)
	}
	target.Object = source.Object
	return nil
}

func (oneVersion) ConvertToVersion(obj runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return obj, nil
}

func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (oneVersion) Default(runtime.Object) {}

func (oneVersion) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}
