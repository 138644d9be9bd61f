package patch

import (
	"encoding/base64"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/informer"
)

// moveStringData moves the stringData of an edited Secret into its data, as the
// server does. The server never shows stringData, so a comparison with it would
// find a difference in each call.
func moveStringData(edited informer.Object) {
	switch secret := edited.(type) {
	case *corev1.Secret:
		if len(secret.StringData) == 0 {
			return
		}
		data := maps.Clone(secret.Data)
		if data == nil {
			data = map[string][]byte{}
		}
		for key, value := range secret.StringData {
			data[key] = []byte(value)
		}
		secret.Data, secret.StringData = data, nil
	case *unstructured.Unstructured:
		moveUntyped(secret)
	}
}

// moveUntyped is moveStringData for an untyped object. It leaves an object
// unchanged whose members have other types than a Secret's.
func moveUntyped(obj *unstructured.Unstructured) {
	if obj.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") {
		return
	}
	texts, found, err := unstructured.NestedStringMap(obj.Object, "stringData")
	if err != nil || !found {
		return
	}
	data, _, err := unstructured.NestedMap(obj.Object, "data")
	if err != nil {
		return
	}
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range texts {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	if len(texts) > 0 {
		obj.Object["data"] = data
	}
	delete(obj.Object, "stringData")
}
