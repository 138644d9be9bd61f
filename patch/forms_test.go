package patch_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// People write 60s, and metav1.Duration writes 1m0s. Values that an edit leaves
// alone keep their form. A patch cannot name one of two values that look the
// same to the program, but not to the server.
func TestValuesKeepTheFormInWhichTheyWereWritten(t *testing.T) {
	hour := metav1.Duration{Duration: time.Hour}
	simulatedWidgets(t).survives([]hiddenCase{
		{
			name: "the first one changed", is: `{"retries":["60s","90m","24h"]}`, wanted: `{"retries":["1h0m0s","90m","24h"]}`,
			edit: func(w *widget) { w.Spec.Retries[0] = hour },
		},
		{
			name: "the last one in front, the first removed", is: `{"retries":["60s","90m","24h"]}`,
			wanted: `{"retries":["24h","1h0m0s"]}`,
			edit:   func(w *widget) { w.Spec.Retries = []metav1.Duration{w.Spec.Retries[2], hour} },
		},
		{
			name: "one of two equal ones removed", is: `{"retries":["60s","60s"]}`, refused: "spec.retries",
			edit: func(w *widget) { w.Spec.Retries = w.Spec.Retries[1:] },
		},
	})
}
