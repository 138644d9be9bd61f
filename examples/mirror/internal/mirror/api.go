package mirror

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/cluster"
)

// A SecretMirror specifies a Secret and the namespaces that get a copy of the
// Secret. SecretMirrors are cluster-scoped.
type SecretMirror struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   SecretMirrorSpec   `json:"spec"`
	Status SecretMirrorStatus `json:"status,omitzero"`
}

// SecretMirrorSpec is the desired state. Users write it.
type SecretMirrorSpec struct {
	// Source is the Secret that is copied. The copies have the same name.
	Source Source `json:"source"`
	// Namespaces selects the namespaces that get a copy, by their labels. It
	// must not be empty: a selector that has lost its condition by mistake
	// would copy the Secret to all namespaces.
	Namespaces metav1.LabelSelector `json:"namespaces"`
}

// Source names a Secret.
type Source struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Key returns the key of the Secret.
func (s Source) Key() types.NamespacedName { return types.NamespacedName(s) }

// SecretMirrorStatus is the result of the last reconcile.
type SecretMirrorStatus struct {
	// Copies is the number of copies that the mirror should have: one in each
	// selected namespace, except in the namespace of the source and in
	// namespaces that are being deleted. It is 0 if the selector is invalid or
	// the source does not exist. If Ready is true, all copies are up to date.
	Copies int64 `json:"copies"`
	// ObservedGeneration is the generation that was reconciled last.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions contains the condition Ready.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SecretMirrorList is a list of SecretMirrors.
type SecretMirrorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []SecretMirror `json:"items"`
}

// groupVersion is the group and version of these types.
var groupVersion = schema.GroupVersion{Group: "mirror.homeostat.dev", Version: "v1alpha1"}

func addToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(groupVersion, &SecretMirror{}, &SecretMirrorList{})
	metav1.AddToGroupVersion(s, groupVersion)
	return nil
}

// NewKind returns a source of clients for SecretMirrors.
func NewKind(c *cluster.Cluster) (*cluster.Kind[*SecretMirror, *SecretMirrorList], error) {
	k, err := cluster.NewKind[*SecretMirror, *SecretMirrorList](c, groupVersion.WithResource("secretmirrors"), addToScheme)
	if err != nil {
		return nil, err
	}
	return k.ClusterScoped(), nil
}

// DeepCopyObject returns a copy that shares no memory with m.
func (m *SecretMirror) DeepCopyObject() runtime.Object {
	out := *m
	out.ObjectMeta = *m.ObjectMeta.DeepCopy() //nolint:staticcheck // m.DeepCopy would look like a copy of the whole object
	out.Spec.Namespaces = *m.Spec.Namespaces.DeepCopy()
	out.Status.Conditions = slices.Clone(m.Status.Conditions)
	return &out
}

// DeepCopyObject returns a copy that shares no memory with l.
func (l *SecretMirrorList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy() //nolint:staticcheck // as above
	out.Items = make([]SecretMirror, 0, len(l.Items))
	for i := range l.Items {
		copied := l.Items[i].DeepCopyObject()
		out.Items = append(out.Items, *copied.(*SecretMirror)) //nolint:forcetypeassert // a copy has the type of its object
	}
	return &out
}
