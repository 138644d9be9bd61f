package apisim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// subresource is an exchange about a subresource other than the status.
type subresource struct{ *exchange }

func (x subresource) serve() (*output, error) {
	switch full := x.t.res.Resource + "/" + x.r.Subresource; {
	case x.r.Subresource == "scale" && x.t.res.builtin.scale:
		return x.scale()
	case full == "pods/eviction" && x.r.Verb == "create":
		return x.evict()
	case full == "pods/binding" && x.r.Verb == "create":
		return x.bind()
	case full == "serviceaccounts/token" && x.r.Verb == "create":
		return x.issueToken()
	case full == "namespaces/finalize" && x.r.Verb == "update":
		return x.finalize()
	}
	known := []string{"pods/eviction", "pods/binding", "serviceaccounts/token", "namespaces/finalize"}
	if slices.Contains(known, x.t.res.Resource+"/"+x.r.Subresource) {
		return nil, apierrors.NewMethodNotSupported(x.t.res.groupResource(), x.r.Verb)
	}
	return nil, notServed()
}

func (x subresource) scale() (*output, error) {
	if !slices.Contains([]string{"get", "update", "patch"}, x.r.Verb) {
		return nil, apierrors.NewMethodNotSupported(x.t.res.groupResource(), x.r.Verb)
	}
	current := x.t.objects[x.r.key()]
	if current == nil {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	if x.r.Verb == "get" {
		return showScale(current)
	}
	scale, err := scaleOf(current)
	if err != nil {
		return nil, err
	}
	wanted, err := scaleBody(x.r, scale)
	if err != nil {
		return nil, err
	}
	if wanted.Name != "" && wanted.Name != x.r.Name {
		return nil, wrongName(wanted.Name, x.r.Name)
	}
	obj := clone(current.obj)
	spec, _ := obj["spec"].(object)
	spec["replicas"] = int64(wanted.Spec.Replicas)
	metaOf(obj)["resourceVersion"] = wanted.ResourceVersion
	parentRequest := *x.r
	parentRequest.Subresource = ""
	fresh, err := (&exchange{s: x.s, t: x.t, r: &parentRequest}).replace(current, obj)
	if err != nil {
		return nil, err
	}
	return showScale(fresh)
}

// scaleBody returns the scale after an update or a patch.
func scaleBody(r *request, current *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	body := r.body
	if r.Verb == "patch" {
		original, err := runtime.DefaultUnstructuredConverter.ToUnstructured(current)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if body, err = scalePatched(r, original); err != nil {
			return nil, err
		}
	}
	wanted := &autoscalingv1.Scale{}
	if err := json.Unmarshal(body, wanted); err != nil {
		return nil, asPatch(r, apierrors.NewBadRequest(err.Error()))
	}
	return wanted, nil
}

func scalePatched(r *request, original object) ([]byte, error) {
	if types.PatchType(r.mediaType) == types.JSONPatchType {
		raw, err := encode(original)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		result, err := jsonPatched(r, &stored{raw: raw})
		if err != nil {
			return nil, err
		}
		return encode(result)
	}
	change, err := decode(r.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return encode(mergeObjects(original, change))
}

func scaleOf(current *stored) (*autoscalingv1.Scale, error) {
	var o struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Replicas *int32                `json:"replicas"`
			Selector *metav1.LabelSelector `json:"selector"`
		} `json:"spec"`
		Status struct {
			Replicas int32 `json:"replicas"`
		} `json:"status"`
	}
	if err := json.Unmarshal(current.raw, &o); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion,
			CreationTimestamp: o.CreationTimestamp,
		},
		Status: autoscalingv1.ScaleStatus{Replicas: o.Status.Replicas, Selector: selector.String()},
	}
	s.Spec.Replicas = 1
	if o.Spec.Replicas != nil {
		s.Spec.Replicas = *o.Spec.Replicas
	}
	return s, nil
}

func showScale(have *stored) (*output, error) {
	scale, err := scaleOf(have)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(scale)
	return &output{code: http.StatusOK, body: body}, err
}

// created returns the answer to a command that is a subresource, such as an
// eviction.
func created() (*output, error) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{
			Kind:       "Status",
			APIVersion: "v1",
		}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	})
	return &output{code: http.StatusCreated, body: body}, err
}

// bind assigns a Pod to a node, as the Kubernetes scheduler does.
func (x subresource) bind() (*output, error) {
	var b corev1.Binding
	if err := json.Unmarshal(x.r.body, &b); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	current := x.t.objects[x.r.key()]
	if current == nil {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	obj := clone(current.obj)
	spec, _ := obj["spec"].(object)
	if node := text(spec, "nodeName"); node != "" {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, x.r.Name,
			fmt.Errorf("pod %s is already assigned to node %q", x.r.Name, node))
	}
	spec["nodeName"] = b.Target.Name
	setCondition(obj, object{
		"type": "PodScheduled", "status": "True", "lastProbeTime": nil,
		"lastTransitionTime": x.s.now(),
	})
	if err := x.overwrite(current, obj); err != nil {
		return nil, err
	}
	return created()
}

// setCondition sets a condition of the object's status.
func setCondition(obj, condition object) {
	status, _ := obj["status"].(object)
	if status == nil {
		status = object{}
	}
	list, _ := status["conditions"].([]any)
	for i, c := range list {
		if have, _ := c.(object); have["type"] == condition["type"] {
			list[i] = condition
			return
		}
	}
	status["conditions"] = append(list, condition)
	obj["status"] = status
}

// overwrite commits a change that the server itself has made to an object,
// unless the call is a dry run.
func (x subresource) overwrite(current *stored, obj object) error {
	if x.r.dryRun() {
		return nil
	}
	obj, err := canonical(&x.t.res, obj)
	if err != nil {
		return err
	}
	fresh, err := newStored(obj, x.s.version+1)
	if err != nil {
		return err
	}
	x.s.version++
	x.s.commit(x.t, x.r, current, fresh)
	return nil
}

// finalize sets the finalizers in a namespace's spec. A terminating namespace
// without finalizers is deleted.
func (x subresource) finalize() (*output, error) {
	sent, err := decodeBody(x.t, x.r)
	if err != nil {
		return nil, err
	}
	current := x.t.objects[x.r.key()]
	if current == nil {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	if err := checkVersion(x.t, x.r, current, sent); err != nil {
		return nil, err
	}
	obj := clone(current.obj)
	carry(metaOf(obj), metaOf(sent), "labels", "annotations", "ownerReferences")
	prepareNamespace(metaOf(obj))
	spec, _ := sent["spec"].(object)
	obj["spec"] = object{}
	if list, _ := spec["finalizers"].([]any); len(list) > 0 {
		obj["spec"] = object{"finalizers": list}
	} else if current.meta()["deletionTimestamp"] != nil && len(finalizersOf(obj)) == 0 && !x.r.dryRun() {
		x.s.version++
		x.s.commit(x.t, x.r, current, nil)
		final, err := newStored(obj, current.version)
		if err != nil {
			return nil, err
		}
		return x.r.show(http.StatusOK, final)
	}
	if err := x.overwrite(current, obj); err != nil {
		return nil, err
	}
	return x.r.show(http.StatusOK, x.t.objects[x.r.key()])
}
