package load

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bigSecret is the distance between two Secrets of 500 KB: one of every 12
// Secrets has this size, as 400 of the 5000 Secrets have in
// https://github.com/k8ssandra/cass-operator/issues/947.
const bigSecret = 12

// Secret returns Secret n, with random data of 4 KB or 500 KB. The big Secrets
// are in namespaces at the beginning of the list. So the updates, which change
// the last 2000 Secrets of the list, change only small ones if there are at
// least 2400 Secrets.
func Secret(n int) *corev1.Secret {
	size, namespace := 4<<10, fmt.Sprintf("tenant-%03d", n%286)
	if n%bigSecret == 0 {
		size, namespace = 500<<10, "big-"+namespace
	}
	created := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, n%86400, 0, time.UTC))
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("s-", n), Namespace: namespace, UID: types.UID(uid(n)),
			ResourceVersion: fmt.Sprint(1_000_000 + n), CreationTimestamp: created,
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "operators", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &created,
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:v":{}},"f:type":{}}`),
			}},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"v": noise(size)},
	}
}

// noise returns random bytes, because no two Secrets should have equal data.
func noise(size int) []byte {
	data := make([]byte, size)
	for n := range data {
		data[n] = byte(rand.IntN(256)) //nolint:gosec // not a secret
	}
	return data
}
