package clients

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes/fake"
)

// The clients that this package must understand.
var (
	_ requester  = (*gentype.Client[*corev1.Pod])(nil)
	_ unstreamed = (*fake.Clientset)(nil)
	_ recorder   = (*fake.Clientset)(nil)
)
