package apisim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

func (x *exchange) create() (*output, error) {
	if x.r.inURL != "" && x.r.Subresource == "" {
		return nil, apierrors.NewMethodNotSupported(x.t.res.groupResource(), x.r.Verb)
	}
	obj, err := decodeBody(x.t, x.r)
	if err != nil {
		return nil, err
	}
	if err := x.checkSchema(obj, x.r.body); err != nil {
		return nil, err
	}
	if rv := text(metaOf(obj), "resourceVersion"); rv != "" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "resourceVersion should not be set on objects to be created",
		}}
	}
	fresh, err := x.admit(obj)
	if err != nil {
		return nil, err
	}
	return x.r.show(http.StatusCreated, fresh)
}

// admit makes a new object from a caller's body and commits it.
func (x *exchange) admit(obj object) (*stored, error) {
	if x.t.res.Status && !x.t.res.builtin.statusAtCreate {
		delete(obj, "status")
	}
	m := metaOf(obj)
	for _, system := range []string{
		"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
		"selfLink",
	} {
		delete(m, system)
	}
	if !x.t.res.builtin.noGeneration {
		delete(m, "generation")
	}
	if x.r.Namespace != "" {
		m["namespace"] = x.r.Namespace
	}
	if err := x.s.checkName(x.t, m); err != nil {
		return nil, err
	}
	if err := x.s.checkNamespace(x.t, x.r); err != nil {
		return nil, err
	}
	return x.insert(obj)
}

// checkName returns an error if an object's name breaks the rules of its kind.
// If the object has no name, it makes one from generateName. m is the object's
// metadata.
func (s *store) checkName(t *table, m object) error {
	prefix := text(m, "generateName")
	if text(m, "name") == "" && prefix != "" {
		m["name"] = prefix + s.identities.newSuffix(t, text(m, "namespace"), prefix)
	}
	checkName := text(m, "name")
	if checkName == "" {
		return apierrors.NewInvalid(t.res.groupKind(), "", field.ErrorList{
			field.Required(field.NewPath("metadata", "name"), "name or generateName is required"),
		})
	}
	var errs field.ErrorList
	if prefix != "" {
		for _, fault := range nameRule(&t.res)(prefix, true) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "generateName"), prefix, fault))
		}
	}
	for _, fault := range nameRule(&t.res)(checkName, false) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), checkName, fault))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(t.res.groupKind(), checkName, errs)
	}
	return nil
}

func nameRule(r *Resource) validation.ValidateNameFunc {
	switch {
	case r.Group == "rbac.authorization.k8s.io":
		return path.ValidatePathSegmentName //nolint:staticcheck // the replacement is too new for old modules
	case r.Group == "" && (r.Resource == "namespaces" || r.Resource == "services"),
		r.Group == "apps" && r.Resource == "statefulsets":
		return validation.NameIsDNSLabel
	}
	return validation.NameIsDNSSubdomain
}

// checkNamespace refuses objects in namespaces that do not exist or are
// terminating, if Options.Lifecycle is set.
func (s *store) checkNamespace(t *table, r *request) error {
	if !s.opts.Lifecycle || !t.res.Namespaced {
		return nil
	}
	gr := schema.GroupResource{Resource: "namespaces"}
	ns := s.tables[schema.GroupVersionResource{
		Version:  "v1",
		Resource: "namespaces",
	}].objects[types.NamespacedName{Name: r.Namespace}]
	if ns == nil {
		return apierrors.NewNotFound(gr, r.Namespace)
	}
	if ns.meta()["deletionTimestamp"] == nil {
		return nil
	}
	err := apierrors.NewForbidden(t.res.groupResource(), r.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated",
			r.Namespace), Field: "metadata.namespace",
	})
	return err
}

// insert completes and checks a new object, and commits it unless the call is a
// dry run. It sets the UID, the creation time and the other fields that the
// server sets. It returns an error if the object breaks a rule or a quota, or
// if an object with its name exists.
func (x *exchange) insert(obj object) (*stored, error) {
	m := metaOf(obj)
	m["creationTimestamp"] = x.s.now()
	count := "uid " + x.t.name + " " + text(m, "namespace") + "/" + givenName(x.r, m)
	if x.r.dryRun() {
		count = "dry run's " + count
		defer func() { x.s.identities.counts[count]++ }()
	}
	if text(m, "uid") == "" {
		m["uid"] = x.s.identities.newUID(count)
	}
	if !x.t.res.builtin.noGeneration && m["generation"] == nil && x.t.res.Resource != "csidrivers" {
		m["generation"] = int64(1)
	}
	prepare(&x.t.res, obj)
	if !x.loading {
		x.mutated(obj)
	}
	if err := applyAdditions(x, obj); err != nil {
		return nil, err
	}
	obj, err := canonical(&x.t.res, obj)
	if err != nil {
		return nil, err
	}
	if !x.loading {
		if err := x.validNew(obj); err != nil {
			return nil, err
		}
	}
	if err := x.withinQuota(text(m, "namespace"), obj); err != nil && !x.loading {
		return nil, err
	}
	if _, exists := x.t.objects[types.NamespacedName{Namespace: text(m, "namespace"), Name: text(m, "name")}]; exists {
		if text(m, "generateName") != "" {
			return nil, apierrors.NewGenerateNameConflict(x.t.res.groupResource(), text(m, "name"), 1)
		}
		return nil, apierrors.NewAlreadyExists(x.t.res.groupResource(), text(m, "name"))
	}
	if obj, err = x.trackFields(nil, obj); err != nil {
		return nil, err
	}
	if x.r.dryRun() {
		return unsaved(obj)
	}
	fresh, err := newStored(obj, x.s.version+1)
	if err != nil {
		return nil, err
	}
	x.s.version++
	x.s.identities.counts[count]++
	x.s.commit(x.t, x.r, nil, fresh)
	return fresh, nil
}

// givenName returns the name that the caller gave, or its generateName followed
// by *.
func givenName(r *request, m object) string {
	if name := text(m, "name"); r.Name == name {
		return name
	}
	return text(m, "generateName") + "*"
}

// prepare sets the fields that the server sets in each object of some kinds,
// such as the initial status of a Pod or the selector of a Job. It is also
// called for objects that Load stores.
func prepare(r *Resource, obj object) {
	if status := r.builtin.statusOnPayload; status != nil && obj["status"] == nil {
		obj["status"] = clone(status)
	}
	switch r.groupResource() {
	case schema.GroupResource{Resource: "namespaces"}:
		prepareNamespace(metaOf(obj))
		obj["spec"] = object{"finalizers": []any{"kubernetes"}}
	case schema.GroupResource{Group: "batch", Resource: "jobs"}:
		identifyJob(obj, metaOf(obj))
	}
}

// prepareNamespace gives a namespace with this metadata the label with its
// name. No write can change that label.
func prepareNamespace(m object) {
	marks, _ := m["labels"].(object)
	if marks == nil {
		marks = object{}
	}
	marks["kubernetes.io/metadata.name"] = m["name"]
	m["labels"] = marks
}

// applyAdditions gives a Service its address and ports, storage its finalizers,
// and Pods the changes of admission. It returns an error for an object that
// admission refuses.
func applyAdditions(x *exchange, obj object) error {
	r, m := &x.t.res, metaOf(obj)
	switch {
	case !r.builtin.typed:
		return nil
	case r.groupResource() == (schema.GroupResource{Resource: "services"}):
		return allocateService(x, obj, nil)
	case x.loading:
		return nil
	}
	switch r.Resource {
	case "persistentvolumeclaims", "persistentvolumes":
		f := protection(r)
		if list, _ := m["finalizers"].([]any); !slices.Contains(list, any(f)) {
			m["finalizers"] = append(list, f)
		}
	case "pods":
		return admitPod(x, obj)
	case "priorityclasses":
		return admitClass(x, obj)
	}
	return nil
}

// protection returns the finalizer that protects a PersistentVolume or a
// PersistentVolumeClaim while it is in use. r must be one of these kinds.
func protection(r *Resource) string {
	if r.Resource == "persistentvolumes" {
		return "kubernetes.io/pv-protection"
	}
	return "kubernetes.io/pvc-protection"
}

// identifyJob gives a Job the selector that the server generates, and its
// template the matching labels. If the Job has no labels, it gets the labels of
// the template. identifyJob leaves a Job alone that has a selector or a
// manualSelector.
func identifyJob(obj, m object) {
	spec := asObject(obj["spec"])
	template := asObject(spec["template"])
	if spec == nil || template == nil || spec["selector"] != nil || spec["manualSelector"] == true {
		return
	}
	uid := m["uid"]
	tm := metaOf(template)
	marks := asObject(tm["labels"])
	if marks == nil {
		marks = object{}
	}
	maps.Copy(marks, object{
		"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid, "job-name": m["name"],
		"batch.kubernetes.io/job-name": m["name"],
	})
	tm["labels"] = marks
	spec["selector"] = object{"matchLabels": object{"batch.kubernetes.io/controller-uid": uid}}
	if m["labels"] == nil {
		m["labels"] = maps.Clone(marks)
	}
}

// Load stores objects as the state before a scenario starts. It stores them as
// they are, including their status and finalizers, and keeps a uid or
// generation that is set. As with every write, the schema of a custom resource
// prunes and defaults their fields. The kinds need not have Go types in
// client-go.
func (s *Server) Load(objs ...runtime.Object) error {
	for _, o := range objs {
		if err := s.load(o); err != nil {
			return fmt.Errorf("loading a %T: %w", o, err)
		}
	}
	return nil
}

// kind returns the table of a kind, or nil.
func (s *store) kind(gvk schema.GroupVersionKind) *table {
	for _, t := range s.ordered {
		if t.res.gvk() == gvk {
			return t
		}
	}
	return nil
}

func (s *Server) load(o runtime.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: clone(content)}
	gvk := o.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return err
		}
		gvk = kinds[0]
	}
	s.mu.Lock()
	t := s.kind(gvk)
	if t == nil {
		s.mu.Unlock()
		return fmt.Errorf("no resource of kind %v is served", gvk)
	}
	r := &request{Call: Call{
		Verb: "create", Resource: t.res.GVR(), Namespace: u.GetNamespace(),
		Name: u.GetName(),
	}}
	delete(metaOf(u.Object), "resourceVersion")
	if t.res.Schema != nil {
		t.res.Schema.Decode(u.Object)
	}
	if err = s.checkName(t, metaOf(u.Object)); err == nil {
		_, err = (&exchange{s: &s.store, t: t, r: r, loading: true}).insert(u.Object)
	}
	s.mu.Unlock()
	s.runHooks()
	return err
}
