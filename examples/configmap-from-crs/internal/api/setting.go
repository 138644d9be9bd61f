package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Published is the condition of a Setting that stands in the ConfigMap.
const Published = "Published"

// A Setting is one key and value of the ConfigMap of its namespace.
type Setting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   SettingSpec   `json:"spec"`
	Status SettingStatus `json:"status,omitzero"`
}

// SettingSpec is the part of a Setting in the ConfigMap.
type SettingSpec struct {
	// Key in the ConfigMap. Of several Settings with one key, the oldest counts.
	Key string `json:"key"`
	// Value of the key.
	Value string `json:"value,omitempty"`
}

// SettingStatus is the result of the last reconcile.
type SettingStatus struct {
	// Conditions has Published.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SettingList is a list of Settings.
type SettingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Setting `json:"items"`
}
