package defaults

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Name is the name of the controller, of its field manager, and of the
	// objects that it creates. It is also the value of the label that marks
	// these objects.
	Name         = "namespace-defaults"
	managedByKey = "app.kubernetes.io/managed-by"
	// policyKey is the annotation that contains a hash of the requested state.
	// Without the hash, fields that the server has added would look like fields
	// of an older policy.
	policyKey = "defaults.homeostat.dev/policy"
)

// outputs are the objects that the policy requires in every namespace. Their
// namespaces are not set yet.
type outputs struct {
	quota  *corev1.ResourceQuota
	limits *corev1.LimitRange
}

func outputsOf(p *Policy) (outputs, error) {
	quotaHash, err := hashOf(p.Quota)
	if err != nil {
		return outputs{}, err
	}
	limitsHash, err := hashOf(p.Limits)
	if err != nil {
		return outputs{}, err
	}
	return outputs{
		quota:  &corev1.ResourceQuota{ObjectMeta: metaOf(quotaHash), Spec: corev1.ResourceQuotaSpec{Hard: p.Quota}},
		limits: &corev1.LimitRange{ObjectMeta: metaOf(limitsHash), Spec: corev1.LimitRangeSpec{Limits: p.Limits}},
	}, nil
}

func metaOf(hash string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: Name, Labels: map[string]string{managedByKey: Name}, Annotations: map[string]string{policyKey: hash},
	}
}

func hashOf(part any) (string, error) {
	text, err := json.Marshal(part)
	if err != nil {
		return "", fmt.Errorf("hashing the policy: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// isOurs reports whether the controller manages an object, by the object's
// label.
func isOurs(o metav1.Object) bool { return o.GetLabels()[managedByKey] == Name }

func samePolicy(current, want metav1.Object) bool {
	return current.GetAnnotations()[policyKey] == want.GetAnnotations()[policyKey]
}

func quotaInShape(current, want *corev1.ResourceQuota) bool {
	return samePolicy(current, want) && apiequality.Semantic.DeepEqual(current.Spec, want.Spec)
}

// limitsInShape reports whether current has all fields of want, was written for
// the same policy, and limits no other types.
func limitsInShape(current, want *corev1.LimitRange) bool {
	if !samePolicy(current, want) || len(current.Spec.Limits) != len(want.Spec.Limits) {
		return false
	}
	for i, asked := range want.Spec.Limits {
		existing := current.Spec.Limits[i]
		if existing.Type != asked.Type || !covers(existing.Max, asked.Max) || !covers(existing.Min, asked.Min) ||
			!covers(existing.Default, asked.Default) || !covers(existing.DefaultRequest, asked.DefaultRequest) ||
			!covers(existing.MaxLimitRequestRatio, asked.MaxLimitRequestRatio) {
			return false
		}
	}
	return true
}

func covers(existing, asked corev1.ResourceList) bool {
	for name, quantity := range asked {
		if value, ok := existing[name]; !ok || value.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}
